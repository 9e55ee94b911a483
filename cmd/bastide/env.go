package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/region"
)

// env prints the root account's credentials and the endpoint in the form that
// a client reads.
func env(_ context.Context, args []string, out, messages io.Writer) error {
	var listen, regionName, tlsMode, format string
	var s settings
	flags := flag.NewFlagSet("env", flag.ContinueOnError)
	flags.StringVar(&s.data, "data", "./bastide-data", "`DIR` of the region's data")
	flags.StringVar(&s.store, "store", "", "`URL` of the store, as given to serve")
	flags.StringVar(&listen, "listen", "", "`ADDR` at which the region is served (default: as last served)")
	flags.StringVar(&regionName, "region", "", "`NAME` of the region (default: as last served)")
	flags.StringVar(&tlsMode, "tls", "", "as given to serve (default: as last served)")
	flags.StringVar(&format, "format", "shell", "`FORM`: shell, json, osc-config or terraform")
	if err := parse(flags, args, messages); err != nil {
		return err
	}
	print, ok := formats[format]
	if !ok {
		return fmt.Errorf("--format: %q is not one of shell, json, osc-config and terraform", format)
	}
	data := s.data
	if !isPostgres(s.store) {
		var err error
		if data, err = s.dataDir(); err != nil {
			return err
		}
	}
	root, err := readRoot(data)
	if err != nil {
		return err
	}
	at, err := readEndpoint(data)
	if err != nil {
		return err
	}
	if listen != "" {
		at.Host = clientHost(listen, "")
	}
	at.Region, at.TLS = cmp.Or(regionName, at.Region), cmp.Or(tlsMode, at.TLS)
	c, err := at.client(root, cmp.Or(data, s.data))
	if err != nil {
		return err
	}
	if c.ca != "" && format != "shell" && format != "json" {
		fmt.Fprintf(messages, "Clients must trust the region's authority: "+
			"set SSL_CERT_FILE and REQUESTS_CA_BUNDLE to %s, as --format shell does.\n", c.ca)
	}
	return print(out, c)
}

// readRoot reads the root account's credentials from the data directory, or from
// the environment that the region was founded with.
func readRoot(data string) (*region.Root, error) {
	root, err := region.ReadRoot(data)
	if !errors.Is(err, os.ErrNotExist) {
		return root, err
	}
	root = &region.Root{AccessKey: os.Getenv("BASTIDE_ROOT_ACCESS_KEY"), SecretKey: os.Getenv("BASTIDE_ROOT_SECRET_KEY")}
	if root.AccessKey == "" || root.SecretKey == "" {
		return nil, fmt.Errorf("there is no %s: start the region with 'bastide serve' first, or give --data DIR; "+
			"after an import, copy it from the exported region", filepath.Join(data, region.RootFile))
	}
	return root, nil
}

// client is what a client of the region needs.
type client struct {
	root         *region.Root
	region, base string
	ca           string // the file of authorities to trust; empty: the system's
}

var formats = map[string]func(io.Writer, client) error{
	"shell": shell, "json": asJSON, "osc-config": oscConfig, "terraform": terraform,
}

// variables returns the environment variables that OUTSCALE's tools read. AWS's
// tools get none as long as the region lacks the APIs that they call: with its
// keys and without its endpoint they would call AWS.
func (c client) variables() [][2]string {
	vars := [][2]string{
		{"OSC_ACCESS_KEY", c.root.AccessKey},
		{"OSC_SECRET_KEY", c.root.SecretKey},
		{"OSC_REGION", c.region},
	}
	endpoints := c.endpoints()
	for _, service := range slices.Sorted(maps.Keys(endpoints)) {
		vars = append(vars, [2]string{"OSC_ENDPOINT_" + strings.ToUpper(service), endpoints[service]})
	}
	if c.ca != "" {
		vars = append(vars, [2]string{"SSL_CERT_FILE", c.ca}, [2]string{"CURL_CA_BUNDLE", c.ca}, [2]string{"REQUESTS_CA_BUNDLE", c.ca})
	}
	return vars
}

// endpoints returns the endpoint of each service, by its name in clients.
// Services that the region does not have lead to it all the same, because
// without an endpoint clients would call the real service.
func (c client) endpoints() map[string]string {
	endpoints := map[string]string{"api": c.base + "/api/v1"}
	for _, service := range []string{"fcu", "lbu", "eim", "icu", "directlink", "direct_link", "oos", "oks", "okms"} {
		endpoints[service] = c.base
	}
	return endpoints
}

func shell(w io.Writer, c client) error {
	for _, v := range c.variables() {
		if _, err := fmt.Fprintf(w, "export %s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`)); err != nil {
			return err
		}
	}
	return nil
}

func asJSON(w io.Writer, c client) error {
	all := map[string]string{}
	for _, v := range c.variables() {
		all[v[0]] = v[1]
	}
	return writeJSON(w, all)
}

// oscConfig writes the file ~/.osc/config.json.
func oscConfig(w io.Writer, c client) error {
	protocol, _, _ := strings.Cut(c.base, ":")
	return writeJSON(w, map[string]any{"default": map[string]any{
		"access_key": c.root.AccessKey, "secret_key": c.root.SecretKey, "region": c.region, "protocol": protocol,
		"endpoints": c.endpoints(),
	}})
}

func terraform(w io.Writer, c client) error {
	lines := []string{
		"terraform {",
		"  required_providers {",
		"    outscale = {",
		`      source = "outscale/outscale"`,
		"    }",
		"  }",
		"}",
		"",
		`provider "outscale" {`,
		fmt.Sprintf("  access_key_id = %q", c.root.AccessKey),
		fmt.Sprintf("  secret_key_id = %q", c.root.SecretKey),
		fmt.Sprintf("  region        = %q", c.region),
		"  api {",
		fmt.Sprintf("    endpoint = %q", c.base+"/api/v1"),
		"  }",
		"}",
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
