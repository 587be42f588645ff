# The crawler and what it needs, which is one static binary and the certificates of the
# authorities that HTTPS is trusted by:
#
#   docker build -t crawl .
#   docker run --rm -v "$PWD/out:/data" -u "$(id -u):$(id -g)" crawl -o /data/site/ https://example.com/
#
# The image has no shell, no package manager and no root.
FROM golang:1.26-bookworm AS build
WORKDIR /src
# The modules alone first: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# -trimpath and no build ID: the same commit gives the same binary. The version is that of
# the tag or commit in .git.
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -buildid=" -o /crawl ./cmd/crawl
# Directories to write in, for whoever mounts nothing there, and a place for temporary files.
RUN install -d -o 65532 -g 65532 /rootfs/data && install -d -m 1777 /rootfs/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /rootfs/ /
COPY --from=build /crawl /crawl
# A number, so that an orchestrator can tell that it is not root.
USER 65532:65532
WORKDIR /data
VOLUME /data
# SIGTERM, which a container is stopped by, finishes what is under way for as long as grace
# says: resume the crawl with the directory that it wrote.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/crawl"]
CMD ["--help"]
