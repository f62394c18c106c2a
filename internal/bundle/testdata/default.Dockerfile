FROM scratch

LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=foo
LABEL operators.operatorframework.io.bundle.channels.v1=stable,4.10
LABEL operators.operatorframework.io.bundle.channel.default.v1=4.10

COPY deploy/1.0/manifests /manifests/
COPY deploy/1.0/metadata /metadata/
