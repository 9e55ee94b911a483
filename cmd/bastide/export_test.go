package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// told runs the program, which must end well, and answers what it prints and
// what it says besides.
func told(t testing.TB, args ...string) (out, messages string) {
	t.Helper()
	cmd := program(t, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v, %s", args, err, said.String())
	}
	return string(text), said.String()
}

// refused runs the program, which must fail and say why.
func refused(t testing.TB, input io.Reader, want string, args ...string) {
	t.Helper()
	cmd := program(t, args...)
	cmd.Stdin = input
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended || !strings.Contains(string(out), want) {
		t.Errorf("%q: %v, %s\nwant an error with %q", args, err, out, want)
	}
}

var whenExported = regexp.MustCompile(`"time":"[^"]*"`)

// exported is what a store holds.
func exported(t testing.TB, args ...string) string {
	t.Helper()
	out, _ := told(t, append([]string{"export"}, args...)...)
	return whenExported.ReplaceAllString(out, `"time":""`)
}

// province is a stopped region with something in it, and how to call it once it
// runs somewhere.
type province struct {
	data string
	key  [2]string
	net  string
	vm   string
}

// longUserData are kept outside of the document of their VM.
var longUserData = strings.Repeat("AAAA", 1000)

func newProvince(t testing.TB) *province {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	root := p.asRoot()
	key := root.call(t, "CreateAccessKey", params{})
	net := root.call(t, "CreateNet", params{"IpRange": "10.0.0.0/16"}).text("Net", "NetId")
	root.call(t, "CreateTags", params{"ResourceIds": []string{net}, "Tags": []params{{"Key": "a", "Value": "<é>"}}})
	vm := root.call(t, "CreateVms", params{"ImageId": "ami-deb12000", "BootOnCreation": false, "UserData": longUserData}).text("Vms", 0,
		"VmId")
	p.stop(t)
	return &province{data, [2]string{key.text("AccessKey", "AccessKeyId"), key.text("AccessKey", "SecretKey")}, net, vm}
}

// lives checks that the region is the one in the directory.
func (v *province) lives(t testing.TB, data string) {
	t.Helper()
	if err := copyFile(filepath.Join(v.data, "root-credentials.json"), filepath.Join(data, "root-credentials.json")); err != nil {
		t.Fatal(err)
	}
	p := start(t, data)
	if strings.Contains(p.output(), "founded") {
		t.Errorf("a new region was founded:\n%s", p.output())
	}
	found := p.client(v.key[0], v.key[1]).call(t, "ReadNets", params{"Filters": params{"NetIds": []string{v.net}}})
	if found.text("Nets", 0, "Tags", 0, "Value") != "<é>" {
		t.Errorf("the Net is %v", found)
	}
	if vms := p.client(v.key[0], v.key[1]).call(t, "ReadVms", params{"Filters": params{"VmIds": []string{v.vm}}}); vms.text("Vms", 0,
		"UserData") != longUserData {
		t.Errorf("the VM is %v", vms)
	}
	p.asRoot().call(t, "CreateNet", params{"IpRange": "10.1.0.0/16"})
	p.stop(t)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// With its master key an export becomes the same region elsewhere.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	out, messages := told(t, "export", "--data", v.data, file)
	if out != "" || !strings.Contains(messages, "Exported ") ||
		!strings.Contains(messages, "sealed: an import needs the master key "+filepath.Join(v.data, "master.key")) ||
		strings.Contains(messages, "\r") {
		t.Errorf("the export prints %q and says %q", out, messages)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the file is %v (%v), want 0600", info.Mode(), err)
	}
	text := readFile(t, file)
	if strings.Contains(text, v.key[1]) {
		t.Error("a secret is in the open")
	}
	if got := exported(t, "--data", v.data, "-"); got != whenExported.ReplaceAllString(text, `"time":""`) {
		t.Errorf("a second export is another one:\n%s\n%s", text, got)
	}

	into := filepath.Join(t.TempDir(), "into")
	_, messages = told(t, "import", "--data", into, file)
	if !strings.Contains(messages, "Imported ") ||
		!strings.Contains(messages, "copy the master key of the exported region to "+filepath.Join(into, "master.key")) {
		t.Errorf("the import says %q", messages)
	}
	refused(t, nil, "master.key", "serve", "--data", into, "--listen", "127.0.0.1:0", "--admin", "off")
	if err := copyFile(filepath.Join(v.data, "master.key"), filepath.Join(into, "master.key")); err != nil {
		t.Fatal(err)
	}
	if got := exported(t, "--data", into); got != exported(t, "--data", v.data) {
		t.Errorf("what was imported is exported otherwise:\n%s", got)
	}
	v.lives(t, into)
}

// With its secrets in the open it needs no master key, and is sealed with
// another one.
func TestExportWithSecrets(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	text, messages := told(t, "export", "--data", v.data, "--with-secrets")
	if !strings.Contains(text, v.key[1]) || !strings.Contains(text, `"secrets":"open"`) || !strings.Contains(messages, "in plain text") {
		t.Errorf("the secret is not in the export, which says %q", messages)
	}
	into := filepath.Join(t.TempDir(), "into")
	cmd := program(t, "import", "--data", into)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "put the master key") {
		t.Fatalf("%v, %s", err, out)
	}
	if readFile(t, into, "master.key") == readFile(t, v.data, "master.key") {
		t.Error("two regions have one master key")
	}
	if sealed := exported(t, "--data", into); strings.Contains(sealed, v.key[1]) || sealed == exported(t, "--data", v.data) {
		t.Error("the secrets are not sealed with another key")
	}
	if again, _ := told(t, "export", "--data", into, "--with-secrets"); whenExported.ReplaceAllString(again,
		"") != whenExported.ReplaceAllString(text, "") {
		t.Error("the secrets have become others")
	}
	v.lives(t, into)
}

// To the other engine and back a region is the same to the byte.
func TestExportBetweenEngines(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	v := newProvince(t)
	text := exported(t, "--data", v.data)
	key := filepath.Join(v.data, "master.key")
	refused(t, nil, "no region was founded", "export", "--store", url)
	cmd := program(t, "import", "--store", url, "--master-key", key)
	cmd.Stdin = strings.NewReader(strings.Replace(text, `"time":""`, `"time":"2026-11-20T12:00:00Z"`, 1))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	if got := exported(t, "--store", url, "--master-key", key); got != text {
		t.Errorf("from PostgreSQL it is\n%s\nwant\n%s", got, text)
	}
	file, into := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "into")
	told(t, "export", "--store", url, "--master-key", key, file)
	refused(t, nil, "the store is not empty", "import", "--store", url, "--master-key", key, file)
	told(t, "import", "--store", "sqlite:"+into, "--master-key", key, file)
	if err := copyFile(key, filepath.Join(into, "master.key")); err != nil {
		t.Fatal(err)
	}
	v.lives(t, into)
}

// What nodes run on is not replaced under them, unless somebody insists.
func TestImportUnderNodes(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	told(t, "export", "--data", v.data, file)
	url, key := postgrestest.Start(t), filepath.Join(v.data, "master.key")
	into := []string{"import", "--store", url, "--master-key", key}
	told(t, append(into, file)...)
	serve := []string{"--store", url, "--master-key", key}
	data := t.TempDir()
	if err := copyFile(filepath.Join(v.data, region.RootFile), filepath.Join(data, region.RootFile)); err != nil {
		t.Fatal(err)
	}
	one, other := start(t, data, serve...), start(t, data, serve...)
	made := one.asRoot().call(t, "CreateNet", params{"IpRange": "10.9.0.0/16"}).text("Net", "NetId")
	for _, flags := range [][]string{{file}, {"--force", file}} {
		refused(t, nil, "nothing was imported: nodes run on the store (2 of them", append(into, flags...)...)
	}
	has := func(p *process) bool {
		t.Helper()
		found := p.asRoot().call(t, "ReadNets", params{"Filters": params{"NetIds": []string{made}}})
		return found.text("Nets", 0, "NetId") == made
	}
	if !has(one) || !has(other) {
		t.Error("an import that was refused has changed what is there")
	}
	if _, messages := told(t, append(into, "--force-running", file)...); !strings.Contains(messages, "Restart all nodes") {
		t.Errorf("the import says %q", messages)
	}
	one.stop(t)
	other.stop(t)
	one = start(t, data, serve...)
	if has(one) {
		t.Error("an import that was told to has not replaced what was there")
	}
	one.stop(t)
	told(t, append(into, "--force", file)...) // nobody runs any more
}

// What is refused changes nothing.
func TestImportRefusals(t *testing.T) {
	t.Parallel()
	v, other := newProvince(t), newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	told(t, "export", "--data", v.data, file)
	text := readFile(t, file)
	lines := strings.SplitAfter(text, "\n")
	before := exported(t, "--data", other.data)
	edit := func(n int, from, to string) io.Reader {
		all := append([]string{}, lines...)
		if !strings.Contains(all[n-1], from) {
			t.Fatalf("line %d has no %q: %s", n, from, all[n-1])
		}
		all[n-1] = strings.Replace(all[n-1], from, to, 1)
		return strings.NewReader(strings.Join(all, ""))
	}
	empty := filepath.Join(t.TempDir(), "empty")
	for _, into := range []string{empty, other.data} {
		for _, c := range []struct {
			name  string
			input io.Reader
			want  string
		}{
			{"nothing", strings.NewReader(""), "the input is empty"},
			{"no export", strings.NewReader("hello\n"), "line 1: "},
			{"a broken line", edit(4, `"doc":`, `"doc"`), "nothing was imported: line 4: "},
			{"an unknown kind", edit(3, `"kind":"`, `"kind":"Un`), "nothing was imported: line 3: "},
			{"half of it", strings.NewReader(text[:len(text)/2]), "nothing was imported: "},
			{"no last line", strings.NewReader(strings.Join(lines[:len(lines)-2], "")), "nothing was imported: the export was cut off after line"},
		} {
			refused(t, c.input, c.want, "import", "--force", "--data", into, "--master-key", filepath.Join(v.data, "master.key"))
			if t.Failed() {
				t.Fatalf("with %s into %s", c.name, into)
			}
		}
	}
	refused(t, nil, "is not empty: --force replaces", "import", "--data", other.data, file)
	refused(t, nil, other.data+"/master.key must be the key of the exported region", "import", "--force", "--data", other.data, file)
	refused(t, nil, "no such file", "import", "--data", other.data, file+"s")
	refused(t, nil, `"more" follows the file`, "import", "--data", other.data, file, "more")
	refused(t, nil, "ends with its process", "import", "--store", "memory", file)
	refused(t, nil, "--store", "import", "--store", "mysql://localhost", file)
	if got := exported(t, "--data", other.data); got != before {
		t.Errorf("a refused import has changed the store:\n%s\nwant\n%s", got, before)
	}
	refused(t, nil, "no region was founded", "export", "--data", empty)
	if _, err := os.Stat(filepath.Join(empty, "master.key")); err == nil {
		t.Error("a refused import has left a master key")
	}

	p := start(t, other.data)
	refused(t, nil, "another running process", "import", "--force", "--data", other.data, file)
	refused(t, nil, "stop it first", "export", "--data", other.data)
	p.stop(t)
	absent := filepath.Join(t.TempDir(), "absent")
	refused(t, nil, "there is no region in "+absent, "export", "--data", absent)
	if _, err := os.Stat(absent); err == nil {
		t.Error("an export has made a directory")
	}
	refused(t, nil, "is not a regular file", "export", "--data", v.data, t.TempDir())
	refused(t, nil, "is not a regular file", "export", "--data", v.data, "/dev/null")
	if err := os.Rename(filepath.Join(v.data, "master.key"), filepath.Join(v.data, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	refused(t, nil, "reading the master key", "export", "--with-secrets", "--data", v.data)
}

// A key that was made for an import that failed goes with it.
func TestImportLeavesNoKey(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	text, _ := told(t, "export", "--with-secrets", "--data", v.data)
	into := filepath.Join(t.TempDir(), "into")
	refused(t, strings.NewReader(text[:len(text)-20]), "nothing was imported", "import", "--data", into)
	if _, err := os.Stat(filepath.Join(into, "master.key")); err == nil {
		t.Error("the key is left")
	}
}

// --force replaces all, and merges nothing.
func TestImportReplaces(t *testing.T) {
	t.Parallel()
	v, other := newProvince(t), newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	told(t, "export", "--data", v.data, "--with-secrets", file)
	_, messages := told(t, "import", "--force", "--data", other.data, file)
	if !strings.Contains(messages, "root-credentials.json belongs to the region that was replaced") {
		t.Errorf("the import says %q", messages)
	}
	got, _ := told(t, "export", "--with-secrets", "--data", other.data)
	if whenExported.ReplaceAllString(got, "") != whenExported.ReplaceAllString(readFile(t, file), "") {
		t.Errorf("the store holds something else than what was imported:\n%s", got)
	}
	v.lives(t, other.data)
}

// An import that is killed half-way, or asked to end, has imported nothing.
func TestImportIsCutOff(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	told(t, "export", "--data", v.data, file)
	// More than fits between two processes: once it is written the import is in
	// the midst of it.
	text := strings.Replace(readFile(t, file), `{"kind"`, strings.Repeat(" ", 4<<20)+`{"kind"`, 1)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		into := filepath.Join(t.TempDir(), "into")
		cmd := program(t, "import", "--data", into)
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(input, text[:len(text)-50]); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal != syscall.SIGKILL {
			_ = input.Close()
		}
		if err := cmd.Wait(); err == nil || signal != syscall.SIGKILL && !strings.Contains(out.String(), "nothing was imported") {
			t.Errorf("%s: %v, %s", signal, err, out.String())
		}
		told(t, "import", "--data", into, file)
	}
}

func TestExportOnATerminal(t *testing.T) {
	t.Parallel()
	v := newProvince(t)
	file := filepath.Join(t.TempDir(), "file")
	var screen terminal
	if err := dispatch(context.Background(), []string{"export", "--data", v.data, file}, io.Discard, &screen); err != nil {
		t.Fatal(err)
	}
	last := func() string {
		shown := screen.shown()
		if len(shown) < 2 || !strings.HasPrefix(shown[0], "exporting [") && !strings.HasPrefix(shown[0], "importing [") {
			t.Errorf("shown is %q", shown)
		}
		return shown[len(shown)-1]
	}
	if got := last(); !strings.HasPrefix(got, "Exported ") {
		t.Errorf("the last line is %q", got)
	}
	screen.Reset()
	if err := dispatch(context.Background(), []string{"import", "--data", filepath.Join(t.TempDir(), "into"), file}, io.Discard,
		&screen); err != nil {
		t.Fatal(err)
	}
	if got := last(); !strings.HasPrefix(got, "Imported ") {
		t.Errorf("the last line is %q", got)
	}
}
