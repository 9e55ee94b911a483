package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/bastide-cloud/bastide/internal/region"
)

// endpointFile is the file in the data directory in which serve records how the
// region is served, for env.
const endpointFile = "endpoint.json"

// endpoint is how a region is served.
type endpoint struct {
	Host   string `json:"host"` // host and port for clients on this machine
	Region string `json:"region"`
	TLS    string `json:"tls"` // off, auto or files
}

// keep writes the endpoint to the data directory.
func (e *endpoint) keep(data string) error {
	return writeWhole(filepath.Join(data, endpointFile), nil, func(w io.Writer) error { return writeJSON(w, e) })
}

// readEndpoint reads how the region of a data directory was last served. If it
// never was, it returns the defaults of serve.
func readEndpoint(data string) (*endpoint, error) {
	e := &endpoint{Host: "127.0.0.1:4280", Region: "eu-west-2", TLS: "off"}
	text, err := os.ReadFile(filepath.Join(data, endpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err == nil {
		err = json.Unmarshal(text, e)
	}
	if err != nil {
		return nil, fmt.Errorf("reading how the region is served: %w", err)
	}
	return e, nil
}

// client returns what clients of the region in a data directory need.
func (e *endpoint) client(root *region.Root, data string) (client, error) {
	c := client{root: root, region: e.Region, base: "https://" + e.Host}
	switch e.TLS {
	case "off":
		c.base = "http://" + e.Host
	case "auto":
		var err error
		if c.ca, err = trustBundle(filepath.Join(data, "tls")); err != nil {
			return c, fmt.Errorf("writing the authorities that clients trust: %w", err)
		}
	}
	return c, nil
}

// clientHost returns the host and port at which clients on this machine call a
// region that listens at an address: the loopback address if it listens at all
// addresses. A port that is not empty replaces the address's.
func clientHost(listen, port string) string {
	host, own, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, cmp.Or(port, own))
}

// systemBundles are the files in which systems keep the authorities that they
// trust.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, Red Hat
	"/etc/pki/tls/certs/ca-bundle.crt",                  // older ones of these
	"/etc/ssl/ca-bundle.pem",                            // SUSE
	"/etc/ssl/cert.pem",                                 // macOS, BSD
}

// trustBundle writes a file of the authorities that the system trusts and the
// region's own, beside the latter. A client with a file of authorities trusts
// no others, so with the region's own alone it could call nothing else.
func trustBundle(dir string) (bundle string, err error) {
	if bundle, err = filepath.Abs(filepath.Join(dir, "bundle.pem")); err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return "", err
	}
	var system []byte
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles...) {
		if file == bundle {
			continue // it may be out of date
		}
		if text, err := os.ReadFile(file); err == nil {
			system = append(bytes.TrimSpace(text), '\n')
			break
		}
	}
	return bundle, writeWhole(bundle, nil, func(w io.Writer) error {
		_, err := w.Write(append(system, own...))
		return err
	})
}
