# getid in a small image: built with the Rust image, run on Debian slim without a toolchain.
#
#   docker build -t getid .
#   docker run -p 7890:7890 -p 127.0.0.1:7880:7880 -e GETID_SERVER_ID=0 -v getid-0:/data getid
#
# Inside a container every client comes from "another machine", so this image listens on all addresses: whoever can
# reach the published port gets IDs. What changes the server (CONFIG SET, ACL, SHUTDOWN ...) needs a login from there:
# set a password (-e GETID_REQUIREPASS=...), or use a loopback connection inside the container.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY crates crates
COPY src src
RUN cargo build --release --locked --bin getid

FROM debian:bookworm-slim
RUN groupadd --system --gid 999 getid \
 && useradd --system --uid 999 --gid getid --home-dir /data --shell /usr/sbin/nologin getid \
 && install -d -o getid -g getid -m 0750 /data
COPY --from=build /src/target/release/getid /usr/local/bin/getid
COPY config/getid.conf /etc/getid/getid.conf

# Every directive can be set in a file that is mounted as /etc/getid/getid.conf, or as GETID_<NAME>, dashes as
# underscores: GETID_SERVER_ID=2, GETID_SHARD_RANGE=12 ... Variables win over the file, these three too. Set another
# port by GETID_PORT, which the health check knows as well. GETID_HTTP_PORT=0 turns the HTTP port off (docs/http.md).
# Server-ids must differ from server to server; 0 is only a default.
ENV GETID_BIND="* -::*" \
    GETID_DIR=/data \
    GETID_HTTP_PORT=7880

USER getid
WORKDIR /data
# The state file is what keeps a restarted server from giving an ID twice: keep this volume.
VOLUME /data
EXPOSE 7890 7880
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=2s --retries=3 CMD ["getid", "ping", "--ids"]
ENTRYPOINT ["getid"]
CMD ["serve", "/etc/getid/getid.conf"]
