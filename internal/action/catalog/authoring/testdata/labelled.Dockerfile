# The builder image makes the cache that the catalog is served from.
# It must hold the program /bin/opm.
FROM builder as builder

# The catalog itself, and its cache
ADD catalog /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM base
# The base image must hold /bin/opm, which serves the catalog,
# and /bin/grpc_health_probe, which says whether it is served.

# How the catalog is served
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]

COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# This label tells where in the image the catalog is.
# Without it the image is not recognized as a catalog.
LABEL operators.operatorframework.io.index.configs.v1=/configs

# Further labels
LABEL "a"="x=y"
LABEL "b"="2"
LABEL "q"="say \"hi\" for \$1"
