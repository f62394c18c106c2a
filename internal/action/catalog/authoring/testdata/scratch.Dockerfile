# The builder image makes the cache that the catalog is served from.
# It must hold the program /bin/opm.
FROM builder as builder

# The catalog itself, and its cache
ADD catalog /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM scratch
# This image holds the catalog and no program that serves it. A CatalogSource that
# uses it must say where the content is:
#   spec:
#     grpcPodConfig:
#       extractContent:
#         catalogDir: /configs
#         cacheDir: /tmp/cache

COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# This label tells where in the image the catalog is.
# Without it the image is not recognized as a catalog.
LABEL operators.operatorframework.io.index.configs.v1=/configs

# Further labels
LABEL "only"=""
