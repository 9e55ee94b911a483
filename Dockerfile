# A static binary, run by a user without privileges. The data are in /data;
# /objects is for a volume that nodes share.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /bastide ./cmd/bastide && mkdir /data /objects

FROM scratch
COPY --from=build /bastide /bastide
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build --chown=65532:65532 /objects /objects
USER 65532:65532
ENV BASTIDE_DATA=/data BASTIDE_LISTEN=0.0.0.0:4280 BASTIDE_ADMIN=0.0.0.0:4281
VOLUME /data
EXPOSE 4280 4281
ENTRYPOINT ["/bastide"]
CMD ["serve"]
