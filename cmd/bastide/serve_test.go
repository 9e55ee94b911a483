package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

func TestARegionOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	root := p.asRoot()
	key := root.call(t, "CreateAccessKey", params{})
	net := root.call(t, "CreateNet", params{"IpRange": "10.0.0.0/16"}).text("Net", "NetId")
	subnet := root.call(t, "CreateSubnet", params{"NetId": net, "IpRange": "10.0.1.0/24"}).text("Subnet", "SubnetId")
	root.call(t, "CreateTags", params{"ResourceIds": []string{subnet}, "Tags": []params{{"Key": "a", "Value": "b"}}})
	if !strings.Contains(p.output(), p.root.SecretKey) {
		t.Errorf("the first start did not show the credentials:\n%s", p.output())
	}
	p.stop(t)

	p = start(t, data)
	if strings.Contains(p.output(), p.root.SecretKey) {
		t.Errorf("the second start showed the credentials again:\n%s", p.output())
	}
	other := p.client(key.text("AccessKey", "AccessKeyId"), key.text("AccessKey", "SecretKey"))
	found := other.call(t, "ReadSubnets", params{"Filters": params{"NetIds": []string{net}}})
	if got := found.text("Subnets", 0, "SubnetId"); got != subnet {
		t.Errorf("after a restart the Subnet is %q, want %q", got, subnet)
	}
	if got := found.text("Subnets", 0, "Tags", 0, "Value"); got != "b" {
		t.Errorf("after a restart its tag is %q, want b", got)
	}
	logs := other.call(t, "ReadApiLogs", params{"Filters": params{"QueryCallNames": []string{"CreateNet"}}})
	if got := logs.text("Logs", 0, "QueryAccessKey"); got != p.root.AccessKey {
		t.Errorf("the API log names the key %q, want %q", got, p.root.AccessKey)
	}
	p.stop(t)
}

func TestSecretsAreNowhereOnTheDisk(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	secret := p.asRoot().call(t, "CreateAccessKey", params{}).text("AccessKey", "SecretKey")
	p.stop(t)
	for _, path := range files(t, data) {
		text := readFile(t, path)
		if strings.Contains(text, secret) {
			t.Errorf("the new key's secret is in %s", path)
		}
		if filepath.Base(path) != region.RootFile && (strings.Contains(text, p.root.SecretKey) || strings.Contains(text, p.root.Password)) {
			t.Errorf("the root account's secrets are in %s", path)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v, %v", path, info.Mode(), err)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 4 {
		t.Fatalf("only %q is in the data directory", all)
	}
	return all
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := program(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, %s\nwant an error with %q", args, err, out, want)
		}
	}
	refused("another running process", "--data", data)
	refused("address already in use", "--data", t.TempDir(), "--listen", strings.TrimPrefix(p.url, "http://"))
	p.stop(t)
	refused("--region eu-west-2", "--data", data, "--region", "us-east-2")
	if err := os.Remove(filepath.Join(data, "master.key")); err != nil {
		t.Fatal(err)
	}
	refused("master.key", "--data", data)
	refused("--throttle", "--throttle", "fast")
	// What is wrong with a flag is found before a region is founded.
	nowhere := filepath.Join(t.TempDir(), "data")
	refused("--tls", "--data", nowhere, "--tls", "on")
	refused("--tls", "--data", nowhere, "--tls", "nope.pem:nope.key")
	refused("object store", "--data", nowhere, "--object-store", "ftp://example.com")
	for _, name := range []string{"UPPER CASE!", "", "-west", "eu.west", strings.Repeat("w", 64)} {
		refused("--region", "--data", nowhere, "--region", name)
	}
	if _, err := os.Stat(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refusal has made the data directory: %v", err)
	}
	refused("--store", "--store", "mysql://localhost/bastide")
	refused("cannot be reached", "--data", t.TempDir(), "--store", "postgres://localhost:1/bastide")
	refused("--trusted-proxies", "--trusted-proxies", "proxy")
	refused("--transitions", "--transitions", "-1s")
	refused("16MiB", "--api-log-size", "15MiB")
	gpus := filepath.Join(t.TempDir(), "gpus.json")
	refused("gpus.json", "--gpus", gpus)
	for text, want := range map[string]string{
		"many": "--gpus", "null": "names no Subregions", `{"eu-west-2z": {"nvidia-p6": 1}}`: "eu-west-2z",
		`{"eu-west-2a": {"nvidia-k3": 1}}`: "nvidia-k3", `{"eu-west-2a": {"nvidia-p6": -1}}`: "cannot be -1",
	} {
		if err := os.WriteFile(gpus, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(want, "--data", t.TempDir(), "--gpus", gpus)
	}
	refused("--images", "--images", filepath.Join(data, "nowhere.json"))
	noImages := filepath.Join(t.TempDir(), "images.json")
	if err := os.WriteFile(noImages, []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("--images", "--images", noImages)
	refused("not defined", "--colour")
}

// A start with a wrong master key says so first, and does nothing.
func TestWrongMasterKey(t *testing.T) {
	t.Parallel()
	otherKey := filepath.Join(t.TempDir(), "other.key")
	if err := os.WriteFile(otherKey, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]func(testing.TB) string{"SQLite": nil, "PostgreSQL": postgrestest.Start} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			flags := []string{"--listen", "127.0.0.1:0", "--admin", "off", "--data", data}
			if store != nil {
				flags = append(flags, "--store", store(t))
			}
			start(t, data, flags[4:]...).stop(t)
			cmd := program(t, append([]string{"serve", "--master-key", otherKey}, flags...)...)
			out, err := cmd.CombinedOutput()
			if want := "bastide: the master key is wrong: the one in " + otherKey + " "; !strings.HasPrefix(string(out), want) ||
				strings.Count(string(out), "\n") != 1 {
				t.Errorf("it says %q, want one line that begins with %q", out, want)
			}
			if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != 1 {
				t.Errorf("it ended with %v, want the status 1", err)
			}
			start(t, data, flags[4:]...).stop(t)
		})
	}
}

func TestFlagsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	cmd := program(t, "serve", "--admin", "off")
	cmd.Env = append(cmd.Env, "BASTIDE_THROTTLE=fast")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--throttle") {
		t.Errorf("BASTIDE_THROTTLE was not read: %v, %s", err, out)
	}
}

func TestRootAccountFromTheEnvironment(t *testing.T) {
	t.Setenv("BASTIDE_ROOT_ACCOUNT_ID", "123456789012")
	t.Setenv("BASTIDE_ROOT_EMAIL", "me@example.com")
	t.Setenv("BASTIDE_ROOT_PASSWORD", "a long password of mine")
	t.Setenv("BASTIDE_ROOT_ACCESS_KEY", "AAAAAAAAAAAAAAAAAAAA")
	t.Setenv("BASTIDE_ROOT_SECRET_KEY", "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB")
	p := start(t, filepath.Join(t.TempDir(), "data"))
	a := p.client("AAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB")
	account := a.call(t, "ReadAccounts", params{})
	if account.text("Accounts", 0, "AccountId") != "123456789012" || account.text("Accounts", 0, "Email") != "me@example.com" {
		t.Errorf("the root account is %v", account)
	}
	a.call(t, "CheckAuthentication", params{"Login": "me@example.com", "Password": "a long password of mine"})
	p.stop(t)
	for _, secret := range []string{"a long password of mine", "BBBBBBBB"} {
		if strings.Contains(p.output(), secret) {
			t.Errorf("the start has printed the secret %q:\n%s", secret, p.output())
		}
	}
	if !strings.Contains(p.output(), "password    (as given)") || !strings.Contains(p.output(), "access key  AAAAAAAAAAAAAAAAAAAA") {
		t.Errorf("the start has printed\n%s", p.output())
	}
}

// A password of the database is warned of where others can read it, and shown
// nowhere.
func TestPasswordOfTheDatabase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const nowhere = "localhost:1/bastide"
	for _, c := range []struct {
		name, store string // the URL in the environment
		flags       []string
		want        string
		warned      bool
	}{
		{"on the command line", "", []string{"--store", "postgres://u:hunter2@" + nowhere}, "cannot be reached", true},
		{"on the command line, as a parameter", "", []string{"--store", "postgres://u@" + nowhere + "?password=hunter2"}, "cannot be reached",
			true},
		{"in the environment", "postgres://u:hunter2@" + nowhere, nil, "cannot be reached", false},
		{"in a file", "", []string{"--store", "postgres://u@" + nowhere, "--store-password-file", file}, "cannot be reached", false},
		{"in the environment and in a file", "postgres://u:hunter2@" + nowhere, []string{"--store-password-file", file}, "given twice", false},
		{"in a file that is not there", "", []string{"--store", "postgres://u@" + nowhere, "--store-password-file", file + "2"},
			"--store-password-file", false},
		{"in an empty file", "", []string{"--store", "postgres://u@" + nowhere, "--store-password-file", empty}, "must contain one line", false},
		{"misplaced", "", []string{"--", "postgres://u:hunter2@" + nowhere, "x"}, "a URL with a password", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for command, flags := range map[string][]string{
				"serve": {"--listen", "127.0.0.1:0", "--admin", "off", "--data", t.TempDir()}, "export": {"--data", t.TempDir()},
			} {
				if c.name == "misplaced" && command == "export" {
					continue // takes the name of a file
				}
				cmd := program(t, append(append([]string{command}, flags...), c.flags...)...)
				if c.store != "" {
					cmd.Env = append(cmd.Env, "BASTIDE_STORE="+c.store)
				}
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), c.want) {
					t.Errorf("%s: %v, %s\nwant an error with %q", command, err, out, c.want)
				}
				if warned := strings.Contains(string(out), "--store has a password"); warned != c.warned || strings.Contains(string(out), "hunter2") {
					t.Errorf("%s says %s", command, out)
				}
			}
		})
	}
}

// Credentials that an earlier start has not come to show are shown.
func TestCredentialsOfAnEarlierFounding(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	r, err := region.Open(t.Context(), region.Options{
		Data: data, Region: "eu-west-2", Domain: "bastide.localhost", Driver: sim.Start(0),
		Clock: clock.System(), Rand: rand.Reader, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for shown := range 2 {
		p := start(t, data)
		if strings.Contains(p.output(), p.root.SecretKey) != (shown == 0) || p.root.SecretKey != r.Founded.SecretKey {
			t.Errorf("start %d prints\n%s", shown, p.output())
		}
		p.stop(t)
	}
}

// A start that is interrupted says no more than that.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, messages strings.Builder
	data := filepath.Join(t.TempDir(), "data")
	err := serve(ctx, []string{"--listen", "127.0.0.1:0", "--admin", "off", "--data", data}, &out, &messages)
	if err == nil || err.Error() != "interrupted before the region was served" || out.Len()+messages.Len() > 0 {
		t.Errorf("it ends with %v, and prints %q and %q", err, out.String(), messages.String())
	}
}

// Where a region has lost its region.db an import brings it back, and until then
// no other one is founded in its place.
func TestImportWhereTheStateIsLost(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	told(t, "export", "--data", v.data, file)
	if err := os.Remove(filepath.Join(v.data, "region.db")); err != nil {
		t.Fatal(err)
	}
	refused(t, nil, "--found-anew", "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data", v.data)
	told(t, "import", "--data", v.data, file)
	v.lives(t, v.data)
}

// An import with a key that stays elsewhere says how to start on it.
func TestImportWithAKeyElsewhere(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	file, into, key := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "into"), filepath.Join(v.data, "master.key")
	told(t, "export", "--data", v.data, file)
	if _, messages := told(t, "import", "--data", into, "--master-key", key, file); !strings.Contains(messages,
		"start it with --master-key "+key) {
		t.Errorf("the import says %q", messages)
	}
	refused(t, nil, "copy it from the exported region", "env", "--data", into)
	if err := copyFile(filepath.Join(v.data, region.RootFile), filepath.Join(into, region.RootFile)); err != nil {
		t.Fatal(err)
	}
	start(t, into, "--master-key", key).stop(t)
}

func TestEnvPrintsWhatClientsNeed(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	listen := strings.TrimPrefix(p.url, "http://")
	for format, wants := range map[string][]string{
		"shell": {"export OSC_ACCESS_KEY='" + p.root.AccessKey + "'", "export OSC_ENDPOINT_API='http://" + listen + "/api/v1'"},
		"json":  {`"OSC_SECRET_KEY": "` + p.root.SecretKey + `"`},
		"osc-config": {`"access_key": "` + p.root.AccessKey + `"`, `"protocol": "http"`, `"api": "http://` + listen + `/api/v1"`,
			`"fcu": "http://` + listen + `"`, `"icu": "http://` + listen + `"`},
		"terraform": {`source = "outscale/outscale"`, `provider "outscale" {`, `endpoint = "http://` + listen + `/api/v1"`},
	} {
		// How the region is served need not be said.
		out, err := program(t, "env", "--data", data, "--format", format).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v, %s", format, err, out)
		}
		for _, want := range wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s prints no %s:\n%s", format, want, out)
			}
		}
		if strings.Contains(string(out), "AWS_") {
			t.Errorf("%s leads AWS's tools elsewhere:\n%s", format, out)
		}
	}
	out, err := program(t, "env", "--store", "sqlite:"+data, "--listen", ":4290", "--region", "mars", "--tls",
		"cert.pem:key.pem").CombinedOutput()
	for _, want := range []string{"OSC_ACCESS_KEY='" + p.root.AccessKey + "'", "OSC_ENDPOINT_API='https://127.0.0.1:4290/api/v1'",
		"OSC_REGION='mars'"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("with flags it prints no %s: %v\n%s", want, err, out)
		}
	}
	if out, err := program(t, "env", "--data", t.TempDir()).CombinedOutput(); err == nil || !strings.Contains(string(out), "bastide serve") {
		t.Errorf("without a region: %v, %s", err, out)
	}
	if out, err := program(t, "env", "--data", data, "--format", "yaml").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "--format") {
		t.Errorf("an unknown format: %v, %s", err, out)
	}
}

// Clients take no address that stands for all of a machine.
func TestClientHost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listen, port, want string }{
		{"127.0.0.1:4280", "", "127.0.0.1:4280"},
		{"0.0.0.0:4280", "", "127.0.0.1:4280"},
		{":4280", "", "127.0.0.1:4280"},
		{"[::]:4280", "", "127.0.0.1:4280"},
		{"[::1]:4280", "", "[::1]:4280"},
		{"region.example:443", "", "region.example:443"},
		{"localhost:0", "4321", "localhost:4321"},
		{"region.example", "", "region.example"},
	} {
		if got := clientHost(test.listen, test.port); got != test.want {
			t.Errorf("clients of %s call %s, want %s", test.listen, got, test.want)
		}
	}
}

func TestAutomaticTLS(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data, "--tls", "auto")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(readFile(t, data, "tls", "ca.pem"))) {
		t.Fatal("ca.pem holds no certificate")
	}
	c := p.asRoot()
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	c.call(t, "ReadNets", params{})
	// The bundle for clients has the system's authorities as well.
	system := filepath.Join(t.TempDir(), "system.pem")
	if err := os.WriteFile(system, []byte("-----BEGIN THE SYSTEM'S-----"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		env := program(t, "env", "--data", data)
		env.Env = append(env.Env, "SSL_CERT_FILE="+system)
		out, err := env.CombinedOutput()
		bundle := filepath.Join(data, "tls", "bundle.pem")
		if err != nil || !strings.Contains(string(out), "export SSL_CERT_FILE='"+bundle+"'") ||
			!strings.Contains(string(out), "OSC_ENDPOINT_API='"+p.url+"/api/v1'") {
			t.Errorf("env prints %s, %v", out, err)
		}
		if text := readFile(t, bundle); text != "-----BEGIN THE SYSTEM'S-----\n"+readFile(t, data, "tls", "ca.pem") {
			t.Errorf("clients trust %s", text)
		}
	}
	if out, err := program(t, "env", "--data", data, "--format", "terraform").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "Clients must trust the region's authority") {
		t.Errorf("for Terraform it prints %s, %v", out, err)
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12}}}
	if _, err := c.try("ReadNets", params{}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	authority := readFile(t, data, "tls", "ca.pem")
	p.stop(t)
	p = start(t, data, "--tls", "auto")
	if readFile(t, data, "tls", "ca.pem") != authority {
		t.Error("the second start made another authority, which no client trusts")
	}
	p.stop(t)
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "data"))
	p.asRoot().call(t, "ReadNets", params{})
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok",
		"/metrics":      `bastide_calls_total{action="ReadNets",code=""} 1`,
		"/debug/pprof/": "goroutine",
	} {
		resp, err := http.Get(p.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v: no %q", path, resp.Status, err, want)
		}
	}
	p.stop(t)
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	printed, err := program(t, "openapi").Output()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, filepath.Join(t.TempDir(), "data"))
	resp, err := http.Get(p.url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	served, err := io.ReadAll(resp.Body)
	if err != nil || string(served) != string(printed) {
		t.Errorf("the document served is not the one printed (%d and %d bytes, %v)", len(served), len(printed), err)
	}
	var document struct{ Paths map[string]any }
	if err := json.Unmarshal(printed, &document); err != nil || document.Paths["/CreateNet"] == nil {
		t.Errorf("the document has no CreateNet: %v", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	if out, err := program(t, "help").CombinedOutput(); err != nil || !strings.Contains(string(out), "serve") {
		t.Errorf("help: %v, %s", err, out)
	}
	if out, err := program(t, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "bastide ") {
		t.Errorf("version: %v, %s", err, out)
	}
	if out, err := program(t, "paint").CombinedOutput(); err == nil || !strings.Contains(string(out), `"paint"`) {
		t.Errorf("an unknown command: %v, %s", err, out)
	}
}
