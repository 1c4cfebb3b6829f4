# A server with the module and the command rlock, or the exporter for Prometheus alone:
#
#   docker build -t rlock .
#   docker build -t rlock --build-arg SERVER=redis:8.0 .
#   docker run -p 6379:6379 rlock
#
#   docker build --target exporter -t rlock-exporter .
#   docker run -p 9821:9821 --env-file exporter.env rlock-exporter
#
# exporter.env has REDIS_URL=redis://exporter:PASSWORD@server:6379, which a command line would show to ps.
#
# packaging/compose.yml starts both, and Prometheus.
#
# Your arguments replace the CMD, so repeat the module:
#   docker run rlock --loadmodule /usr/lib/redis/modules/librlock.so --appendonly yes

# Any Debian image of Redis or Valkey, with the C library of the build below or a newer one.
ARG SERVER=valkey/valkey:8.1

FROM rust:1.88-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN CARGO_PROFILE_RELEASE_STRIP=true cargo build --release --locked -p rlock-module -p rlock-cli \
    && ./scripts/licences.sh > target/third-party-licences

FROM debian:bookworm-slim AS exporter
# For rediss://.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/rlock /usr/bin/
COPY --from=build /src/LICENSE /src/target/third-party-licences /usr/share/doc/rlock/
USER 65534:65534
EXPOSE 9821
# Your arguments follow: --hot-locks 0.
ENTRYPOINT ["rlock", "exporter", "--listen", "0.0.0.0:9821"]

# The last one, so that a build without --target makes it.
# hadolint ignore=DL3006
FROM ${SERVER} AS server
COPY --from=build /src/target/release/librlock.so /usr/lib/redis/modules/
COPY --from=build /src/target/release/rlock /usr/bin/
COPY --from=build /src/LICENSE /src/target/third-party-licences /usr/share/doc/rlock/
# Unhealthy is a primary that refuses writes or whose memory is full, and a replica without its primary's data; `docker inspect` shows what
# to do. For a password, set the container's REDIS_URL: redis://:password@127.0.0.1.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["rlock", "health"]
# The base image's entrypoint starts the server with these arguments, as the server's user.
CMD ["--loadmodule", "/usr/lib/redis/modules/librlock.so"]
