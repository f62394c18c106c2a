FROM scratch

LABEL operators.operatorframework.io.bundle.mediatype.v1=plain
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=foo
LABEL operators.operatorframework.io.bundle.channels.v1=1.0
COPY deploy/1.0/manifests /manifests/
COPY deploy/1.0/metadata /metadata/
