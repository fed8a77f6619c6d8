# syntax=docker/dockerfile:1
# The service on a CPU; kernels for what the processor can do are chosen when it starts.
#
#   docker build -t sightline .
#   docker run -p 127.0.0.1:7411:7411 -v sightline:/data -v "$PWD/keys:/run/secrets/keys:ro" -v "$HOME/src:/repositories:ro" sightline
#
# A file of keys is needed, since the service listens on all addresses of the container (`openssl rand -hex 32 > keys`, readable for user 10001).

# The Rust of rust-toolchain.toml. The whole image and not the slim one: it has the C and C++ compilers that the grammars and SQLite need.
FROM rust:1.95.0-trixie AS build
# The image's own toolchain, not a second one with components that building doesn't need.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin sightline \
    && install -D -m 755 target/release/sightline /out/usr/bin/sightline \
    && /out/usr/bin/sightline man --out /out/usr/share/man/man1 \
    && install -D -m 644 -t /out/usr/share/doc/sightline LICENSE NOTICE README.md \
    && install -d -m 700 -o 10001 -g 10001 /out/data

# The same release of Debian, whose C library the program was linked with.
FROM debian:13.1-slim
COPY --from=build /out /
# Indexes, vectors and uploads, and models of the hub. Nothing else is written.
ENV SIGHTLINE_INDEX_DATA_DIR=/data/sightline \
    HF_HOME=/data/huggingface \
    SIGHTLINE_SERVER_ROOTS=/repositories \
    SIGHTLINE_SERVER_KEYS_FILE=/run/secrets/keys \
    SIGHTLINE_SERVER_LOG_FORMAT=json
VOLUME /data
USER 10001:10001
EXPOSE 7411
# The image has no HTTP client, and bash opens a connection itself. A first start may download a model.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7411 && printf 'GET /health HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
# SIGTERM ends it once what is in flight is answered (server.drain_seconds): give `docker stop` more time than that.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sightline"]
CMD ["serve", "--host", "0.0.0.0"]
