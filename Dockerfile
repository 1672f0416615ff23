# getid in an image that holds one static program and its configuration: no shell, no library, no user but its own.
#
#   docker build -t getid .                     builds the program too, with the Rust image; takes BuildKit or Podman
#   packaging/image target/dist/getid-x86_64    takes a program that is built already (`--target runtime`)
#   docker run --name getid -p 7890:7890 -p 127.0.0.1:7880:7880 -e GETID_SERVER_ID=0 -v getid-0:/data getid
#
# Inside a container every client comes from "another machine", so this image listens on all addresses: every client
# that reaches the published port gets IDs. What changes the server (CONFIG SET, ACL, SHUTDOWN ...) needs a login from
# there: set a password (-e GETID_REQUIREPASS=...), or use a loopback connection inside the container.

# What both images below are, without their files.
FROM scratch AS settings
LABEL org.opencontainers.image.title="getid" \
      org.opencontainers.image.description="Unique, time-ordered 64-bit IDs over the Redis protocol" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
# Every directive can be set in a file that is mounted as /etc/getid/getid.conf, or as GETID_<NAME>, dashes as
# underscores: GETID_SERVER_ID=2, GETID_SHARD_RANGE=12 ... Variables win over the file, these three too. Set another
# port by GETID_PORT, which the health check knows as well. GETID_HTTP_PORT=0 turns the HTTP port off (docs/http.md).
# Server-ids must differ from server to server; 0 is only a default.
ENV GETID_BIND="* -::*" \
    GETID_DIR=/data \
    GETID_HTTP_PORT=7880
# A number, so that Kubernetes sees that it is not root.
USER 999:999
WORKDIR /data
EXPOSE 7890 7880
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=2s --retries=3 CMD ["getid", "ping", "--ids"]
ENTRYPOINT ["getid"]
CMD ["serve", "/etc/getid/getid.conf"]

# From a context that holds a built program: packaging/image makes it. This stage is in front of the next, so that no
# tool fetches the Rust image for it.
FROM settings AS runtime
COPY --chown=999:999 data /data
COPY nsswitch.conf /etc/nsswitch.conf
COPY getid.conf /etc/getid/getid.conf
COPY licences.txt /usr/share/doc/getid/licences.txt
COPY getid /usr/local/bin/getid
# The state file is what keeps a restarted server from giving an ID twice: keep this volume.
VOLUME /data

# With its registry: Podman asks for one.
FROM docker.io/library/rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY config config
COPY crates crates
COPY packaging packaging
COPY src src
RUN packaging/binary "$(uname -m)" \
 && packaging/licences "$(uname -m)" \
 && mv "target/dist/licences-$(uname -m).txt" target/dist/licences.txt \
 && install -d -m 0750 target/dist/data \
 && mv "target/dist/getid-$(uname -m)" target/dist/getid

FROM settings
COPY --from=build --chown=999:999 /src/target/dist/data /data
COPY packaging/nsswitch.conf /etc/nsswitch.conf
COPY config/getid.conf /etc/getid/getid.conf
COPY --from=build /src/target/dist/licences.txt /usr/share/doc/getid/licences.txt
COPY --from=build /src/target/dist/getid /usr/local/bin/getid
VOLUME /data
