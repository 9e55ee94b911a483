package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/bastide-cloud/bastide"

// others stands for every package that is neither ours nor of the standard
// library.
const others = "other modules"

// rule forbids imports. Packages are named from the root of the module; a
// pattern may hold a * for one part of a name, and may end with /... for a
// package and all below it.
type rule struct {
	of  []string // the packages that it binds
	not []string // what they must not import…
	but []string // …save these
	why string
}

var (
	webPackages = []string{"net/http", "net/http/..."}
	sqlPackages = []string{"database/sql", "database/sql/...", "zombiezen.com/...", "modernc.org/...", "github.com/jackc/..."}

	// families are the domains, and the list of them all.
	families = []string{"internal/cloud/..."}
)

// The rules of who may import whom, from the ground up. Imports point
// downwards; what is below does not know what is above.
var rules = []rule{
	{
		of:  []string{"internal/apierror", "internal/lifecycle", "internal/driver", "internal/clock", "internal/seal", "internal/metadata"},
		not: []string{"internal/...", others},
		why: "everything may stand on them, so they stand on the standard library only",
	},
	{
		of:  []string{"internal/policy"},
		not: []string{"internal/..."},
		why: "a decision follows from documents and an action, whoever asks for it",
	},
	{
		of:  []string{"internal/store"},
		not: []string{"internal/...", others},
		but: []string{"github.com/tidwall/btree"},
		why: "it keeps objects of whatever kind; the trees are what makes a snapshot cheap",
	},
	{
		of:  []string{"internal/store/*"},
		not: []string{"internal/..."},
		but: []string{"internal/store"},
		why: "a journal keeps rows and does not know what is in them",
	},
	{
		of:  []string{"internal/export"},
		not: []string{"internal/..."},
		but: []string{"internal/store"},
		why: "a dump has every row there is, of kinds that nobody has thought of yet: what a document means is a codec's matter",
	},
	{
		of:  []string{"internal/driver/*"},
		not: []string{"internal/..."},
		but: []string{"internal/driver", "internal/metadata", "internal/driver/proxy/*"},
		why: "a driver is given plain values, so that it can be written without knowing the control plane",
	},
	{
		of:  []string{"internal/objectstore"},
		not: []string{"internal/...", others, "net/http"},
		but: []string{"internal/apierror", "internal/driver"},
		why: "the families ask it, and which store there is was chosen above",
	},
	{
		of:  []string{"internal/objectstore/*"},
		not: []string{"internal/..."},
		but: []string{"internal/apierror", "internal/objectstore", "internal/objectstore/*"},
		why: "an object store knows nothing of what is in the objects",
	},
	{
		of:  []string{"...", "!internal/objectstore/s3"},
		not: []string{"github.com/aws/aws-sdk-go-v2/..."},
		why: "one package speaks S3; everybody else asks an object store of whatever kind",
	},
	{
		of:  []string{"...", "!internal/nameserver"},
		not: []string{"github.com/miekg/..."},
		why: "one package speaks DNS",
	},
	{
		of:  []string{"internal/nameserver"},
		not: []string{"internal/..."},
		why: "it is given the addresses of load balancers, and reads those of VMs from their names",
	},
	{
		of:  families,
		not: []string{"internal/objectstore/*"},
		why: "a family asks an object store, and does not know which",
	},
	{
		of:  []string{"internal/resource"},
		not: []string{"internal/..."},
		but: []string{"internal/apierror", "internal/lifecycle", "internal/store"},
		why: "a kind states what is true of a resource, whoever asks for it",
	},
	{
		of:  []string{"internal/api"},
		not: []string{"internal/..."},
		but: []string{"internal/apierror", "internal/resource", "internal/lifecycle"},
		why: "an action sees resources through their kinds, and not how the call came or what is kept where",
	},
	{
		of:  []string{"internal/cloud/id"},
		not: []string{"internal/..."},
		but: []string{"internal/resource"},
		why: "all families name each other's ids, so the ids know no family",
	},
	{
		of:  append([]string{"internal/resource", "internal/api"}, families...),
		not: append(slices.Clone(webPackages), "net/rpc"),
		why: "a rule does not know that it was called over HTTP: the same one serves all protocols",
	},
	{
		of:  append([]string{"internal/resource", "internal/api", "internal/store"}, families...),
		not: sqlPackages,
		why: "what is kept in a database is a journal's matter, so that all engines behave alike",
	},
	{
		of:  families,
		not: []string{"internal/store/..."},
		why: "a family reaches resources through kinds, which look after references, unique keys and quotas",
	},
	{
		of:  families,
		not: []string{"internal/driver/*"},
		why: "a family says what it wants of a driver, and not of which: the driver is chosen above",
	},
	{
		of:  families,
		not: []string{"internal/auth", "internal/wire/...", "internal/server", "internal/apilog", "internal/region"},
		why: "a family does not know how a call came: who may call was decided before",
	},
	{
		of:  []string{"internal/cloud/iam", "internal/cloud/catalog", "internal/cloud/id"},
		not: []string{"internal/driver/...", "internal/reconcile"},
		why: "nothing of theirs is in the driver, and a rule calls no driver",
	},
	{
		of:  []string{"internal/cloud/*", "!internal/cloud/network", "!internal/cloud/compute", "!internal/cloud/balancer"},
		not: []string{"internal/reconcile"},
		why: "what a family wants of a driver stands beside its rules, as what a loop does; who runs it, and when, is no rule's matter",
	},
	{
		of:  []string{"internal/cloud/iam"},
		not: []string{"internal/cloud/..."},
		but: []string{"internal/cloud/id"},
		why: "who somebody is does not depend on what they have",
	},
	{
		of:  []string{"internal/cloud/catalog"},
		not: []string{"internal/cloud/..."},
		but: []string{"internal/cloud/id"},
		why: "what a region offers does not depend on what anybody made of it",
	},
	{
		of:  []string{"internal/cloud/network"},
		not: []string{"internal/cloud/..."},
		but: []string{"internal/cloud/id"},
		why: "machines and balancers are plugged into networks, and not the other way round",
	},
	{
		of:  []string{"internal/cloud/compute"},
		not: []string{"internal/cloud/..."},
		but: []string{"internal/cloud/id", "internal/cloud/network"},
		why: "machines are made of what is here and plugged into networks, whoever owns them and whatever is put before them",
	},
	{
		of:  []string{"internal/cloud/balancer"},
		not: []string{"internal/cloud/..."},
		but: []string{"internal/cloud/id", "internal/cloud/iam", "internal/cloud/network", "internal/cloud/compute"},
		why: "load balancers are plugged into networks, forward to machines and show certificates, and none of these knows them",
	},
	{
		of:  []string{"..."},
		not: []string{"internal/cloud/cloudtest"},
		why: "it is for tests, whose imports are not held",
	},
	{
		of:  []string{"internal/cloud/cloudtest"},
		not: []string{"internal/cloud/..."},
		why: "all domains are tested with it, so it knows none",
	},
	{
		of:  []string{"internal/wire/..."},
		not: families,
		why: "a protocol is about bytes: it names no family's type, so that it serves actions nobody has written yet",
	},
	{
		of:  []string{"internal/wire/..."},
		not: []string{"internal/store/...", "internal/auth", "internal/server", "internal/apilog", "internal/region"},
		why: "a protocol recognises, decodes and encodes: who may call and what it does is decided elsewhere",
	},
	{
		of:  []string{"internal/auth"},
		not: families,
		but: []string{"internal/cloud/iam", "internal/cloud/id"},
		why: "who may call follows from accounts, users and keys alone",
	},
	{
		of: []string{"internal/auth"},
		not: []string{"internal/wire/...", "internal/server", "internal/apilog", "internal/reconcile", "internal/driver/...", "internal/region",
			"internal/store/..."},
		why: "the gate says who calls and whether they may, and nothing of how it came, is kept or is carried out",
	},
	{
		of: []string{"internal/apilog"},
		not: append([]string{"internal/auth", "internal/wire/...", "internal/server", "internal/reconcile", "internal/driver/...",
			"internal/region"}, families...),
		why: "a call is recorded alike whatever it asks and whoever refuses it",
	},
	{
		of: []string{"internal/reconcile"},
		not: append([]string{"internal/api", "internal/auth", "internal/wire/...", "internal/server", "internal/apilog", "internal/driver/*",
			"internal/region"}, append(slices.Clone(families), webPackages...)...),
		why: "no loop answers a request, and how to wait, retry and wake is the same for all families and drivers",
	},
	{
		of:  []string{"internal/region"},
		not: []string{"internal/driver/*"},
		why: "what a region runs on is chosen by the program that opens it",
	},
	{
		of:  []string{"internal/server"},
		not: append([]string{"internal/driver/...", "internal/reconcile", "internal/region", "internal/store/..."}, families...),
		why: "the path of a request is the same for all actions, and changes the driver only through what they store",
	},
	{
		of:  []string{"internal/...", "!internal/bench"},
		not: []string{"internal/region", "internal/bench", "internal/acceptance", "cmd/..."},
		why: "the parts do not know the whole",
	},
	{
		of:  []string{"...", "!internal/store/sqljournal", "!internal/store/sqljournal/postgrestest", "!internal/apilog", "!internal/bench"},
		not: sqlPackages,
		why: "one package keeps the state in SQL and one the calls; everybody else would go behind their backs, save who measures what they cost",
	},
	{
		of:  []string{"..."},
		not: []string{"C", "unsafe"},
		why: "the program is one static binary that any Go toolchain builds",
	},
}

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath string
	Imports    []string
}

// packages lists the packages of the module, those that do not compile
// included.
func packages(t *testing.T) (all []listed) {
	t.Helper()
	list := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("what go list says: %v", err)
		}
		all = append(all, p)
	}
}

// local is a package's name from the root of the module.
func local(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// matches reports whether a package is one that a pattern names.
func matches(pattern, name string) bool {
	if pattern == others {
		host, _, _ := strings.Cut(name, "/")
		return strings.Contains(host, ".") && name != "."
	}
	if prefix, ok := strings.CutSuffix(pattern, "..."); ok {
		return name+"/" == prefix || strings.HasPrefix(name, prefix)
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func among(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// binds reports whether the rule is about a package. A pattern after a ! takes
// packages out.
func (r rule) binds(name string) bool {
	out := slices.ContainsFunc(r.of, func(p string) bool {
		p, not := strings.CutPrefix(p, "!")
		return not && matches(p, name)
	})
	return among(r.of, name) && !out
}

// broken says which imports the rules forbid.
func broken(rules []rule, packages []listed) (said []string) {
	for _, p := range packages {
		for _, r := range rules {
			for _, imported := range p.Imports {
				if name := local(imported); r.binds(local(p.ImportPath)) && among(r.not, name) && !among(r.but, name) {
					said = append(said, fmt.Sprintf("%s imports %s: %s", local(p.ImportPath), name, r.why))
				}
			}
		}
	}
	return said
}

func TestImports(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for _, said := range broken(rules, all) {
		t.Error(said)
	}
	for _, r := range rules {
		if !slices.ContainsFunc(all, func(p listed) bool { return r.binds(local(p.ImportPath)) }) {
			t.Errorf("the rule for %q binds no package: %s", r.of, r.why)
		}
	}
}

// The rules can be broken.
func TestImportsAreSeen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, of, imports string
		want              bool
	}{
		{"a family and HTTP", "internal/cloud/network", "net/http", true},
		{"a family and what is below HTTP", "internal/cloud/iam", "net/http/httptrace", true},
		{"a family and a database", "internal/cloud/network", "zombiezen.com/go/sqlite", true},
		{"a family and the store", "internal/cloud/network", module + "/internal/store", true},
		{"a family and a driver", "internal/cloud/network", module + "/internal/driver/sim", true},
		{"a family and what drivers can do", "internal/cloud/network", module + "/internal/driver", false},
		{"a family without a driver", "internal/cloud/iam", module + "/internal/driver", true},
		{"a family and another", "internal/cloud/network", module + "/internal/cloud/iam", true},
		{"a family and the ids", "internal/cloud/network", module + "/internal/cloud/id", false},
		{"a family that is new", "internal/cloud/compute", module + "/internal/auth", true},
		{"a protocol and a family", "internal/wire/oapi", module + "/internal/cloud/network", true},
		{"a protocol that is new", "internal/wire/query", module + "/internal/cloud/id", true},
		{"a protocol and HTTP", "internal/wire/oapi", "net/http", false},
		{"the gate and who somebody is", "internal/auth", module + "/internal/cloud/iam", false},
		{"the gate and a network", "internal/auth", module + "/internal/cloud/network", true},
		{"a loop and an action", "internal/reconcile", module + "/internal/api", true},
		{"the store and its trees", "internal/store", "github.com/tidwall/btree", false},
		{"the store and another module", "internal/store", "github.com/google/uuid", true},
		{"the store and the standard library", "internal/store", "log/slog", false},
		{"the store and a kind", "internal/store", module + "/internal/resource", true},
		{"faults and another module", "internal/apierror", "golang.org/x/sys/unix", true},
		{"a journal and a database", "internal/store/sqljournal", "zombiezen.com/go/sqlite/sqlitex", false},
		{"a journal and the database that nodes share", "internal/store/sqljournal", "github.com/jackc/pgx/v5/pgxpool", false},
		{"tests' servers and a database", "internal/store/sqljournal/postgrestest", "github.com/jackc/pgx/v5", false},
		{"other tests of stores and a database", "internal/store/storetest", "github.com/jackc/pgx/v5", true},
		{"the whole and a database", "internal/region", "github.com/jackc/pgx/v5/pgxpool", true},
		{"a dump and the store", "internal/export", module + "/internal/store", false},
		{"a dump and an engine", "internal/export", module + "/internal/store/sqljournal", true},
		{"a dump and kinds", "internal/export", module + "/internal/resource", true},
		{"a dump and a family", "internal/export", module + "/internal/cloud/network", true},
		{"the server and a database", "internal/server", "database/sql", true},
		{"a part and the whole", "internal/server", module + "/internal/region", true},
		{"a benchmark and the whole", "internal/bench", module + "/internal/region", false},
		{"a benchmark and the database that it measures", "internal/bench", "github.com/jackc/pgx/v5", false},
		{"the program and the whole", "cmd/bastide", module + "/internal/region", false},
		{"anything and C", "cmd/bastide", "C", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			said := broken(rules, []listed{{module + "/" + test.of, []string{"fmt", test.imports}}})
			if (len(said) > 0) != test.want {
				t.Errorf("%s imports %s: forbidden by %q", test.of, test.imports, said)
			}
		})
	}
}

// source is a file of Go.
type source struct {
	dir, name string // the directory from the root of the module, the file in it
	file      *ast.File
	positions *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func parseSource(name string, text any) (source, error) {
	s := source{dir: path.Dir(name), name: path.Base(name), positions: token.NewFileSet()}
	var err error
	s.file, err = parser.ParseFile(s.positions, name, text, parser.SkipObjectResolution)
	return s, err
}

// sources parses the files of the module.
func sources(t *testing.T) (all []source) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		s, err := parseSource(name, text)
		if err != nil {
			t.Logf("left out: %v", err) // the compiler will say so
			return nil
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// use is a name of a package that a file uses.
type use struct {
	pkg, name string
	at        token.Position
	bubble    bool // inside a call of synctest.Test, where time is the test's own
}

// uses lists what a file uses of the packages it imports.
func uses(s source) (all []use) {
	names := map[string]string{}
	for _, spec := range s.file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(imported)
		if imported == "math/rand/v2" {
			name = "rand"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	var visit func(ast.Node, bool)
	visit = func(n ast.Node, bubble bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && !bubble && f.Sel.Name == "Test" {
					if x, ok := f.X.(*ast.Ident); ok && names[x.Name] == "testing/synctest" {
						visit(n, true)
						return false
					}
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && names[x.Name] != "" {
					all = append(all, use{names[x.Name], n.Sel.Name, s.positions.Position(n.Pos()), bubble})
				}
			}
			return true
		})
	}
	visit(s.file, false)
	return all
}

// ofTheMachine says what of a package takes the time or random from the
// machine.
var ofTheMachine = map[string]func(name string) bool{
	"time": func(name string) bool {
		return slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}, name)
	},
	"crypto/rand":  func(string) bool { return true },
	"math/rand":    unseeded,
	"math/rand/v2": unseeded,
}

// unseeded reports the functions that draw from a source with a seed of the
// machine's.
func unseeded(name string) bool {
	return !slices.Contains([]string{"New", "NewSource", "NewPCG", "NewChaCha8", "Rand", "Source", "PCG", "ChaCha8"}, name)
}

// clocks are the packages below cmd that may use the machine's time: they are
// there to give it to others, or to measure.
var clocks = []string{"internal/clock", "internal/bench"}

// granted are single uses that are allowed all the same, and why.
var granted = map[string]string{
	"internal/region: time.After": "it is passed on as a value: how long the API log gathers calls for one write is the disk's " +
		"matter, whatever the region's clock says",
}

func (u use) in(s source) string { return s.dir + ": " + u.pkg + "." + u.name }

// machineUses are the uses that a file should not have.
func machineUses(s source) (wrong []use) {
	for _, u := range uses(s) {
		taken := ofTheMachine[u.pkg]
		switch {
		case taken == nil || !taken(u.name):
		case s.isTest():
			if u.name == "Sleep" && !u.bubble {
				wrong = append(wrong, u)
			}
		case matches("internal/...", s.dir) && !slices.Contains(clocks, s.dir) && granted[u.in(s)] == "":
			wrong = append(wrong, u)
		}
	}
	return wrong
}

// A region whose clock is moved moves as a whole, and one with a seed does the
// same again: below cmd nobody takes time or random from the machine. And no
// test sleeps: it would be slow where it waits too long and fail where it does
// not.
func TestTimeAndChanceAreGiven(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, s := range sources(t) {
		for _, u := range machineUses(s) {
			if s.isTest() {
				t.Errorf("%s: a test sleeps: wait for what should happen", u.at)
			} else {
				t.Errorf("%s: %s.%s is the machine's: take the clock or the random source you are given", u.at, u.pkg, u.name)
			}
		}
		for _, u := range uses(s) {
			used[u.in(s)] = true
		}
	}
	for use, why := range granted {
		if !used[use] {
			t.Errorf("%s is granted and not used: %s", use, why)
		}
	}
}

func TestTimeAndChanceAreSeen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file, text string
		want             int
	}{
		{"the time", "internal/auth/x.go", `import "time"; var now = time.Now()`, 1},
		{"the clock as a value", "internal/auth/x.go", `import "time"; var now = time.Now`, 1},
		{"under another name", "internal/auth/x.go", `import clock "time"; func f() { clock.Sleep(clock.Second); <-clock.After(1) }`, 2},
		{"a timer", "internal/auth/x.go", `import "time"; var t = time.NewTimer(time.Minute)`, 1},
		{"a time that was given", "internal/auth/x.go",
			`import "time"; func f(now func() time.Time) bool { return now().After(time.Unix(0, 0)) }`, 0},
		{"chance", "internal/auth/x.go", `import "crypto/rand"; var source = rand.Reader`, 1},
		{"a number of the machine's choice", "internal/auth/x.go", `import "math/rand/v2"; var n = rand.IntN(6)`, 1},
		{"a seed", "internal/auth/x.go", `import "math/rand/v2"; var source = rand.NewChaCha8([32]byte{})`, 0},
		{"something else of the name", "internal/auth/x.go", `import "example.com/time"; var now = time.Now()`, 0},
		{"a package that is new", "internal/cloud/compute/x.go", `import "time"; var now = time.Now()`, 1},
		{"the clock itself", "internal/clock/x.go", `import "time"; var now = time.Now()`, 0},
		{"the program", "cmd/bastide/x.go", `import ("crypto/rand"; "time"); var now, source = time.Now, rand.Reader`, 0},
		{"what is granted", "internal/region/x.go", `import "time"; var after = time.After`, 0},
		{"what is granted elsewhere", "internal/auth/x.go", `import "time"; var after = time.After`, 1},
		{"something else there", "internal/region/x.go", `import "time"; var now = time.Now`, 1},
		{"a test's time", "internal/auth/x_test.go", `import "time"; var now = time.Now()`, 0},
		{"a test that sleeps", "internal/auth/x_test.go", `import "time"; func f() { time.Sleep(1) }`, 1},
		{"the program's test that sleeps", "cmd/bastide/x_test.go", `import "time"; func f() { time.Sleep(1) }`, 1},
		{"a test that sleeps in a bubble", "internal/auth/x_test.go",
			`import ("testing/synctest"; "time"); func f() { synctest.Test(nil, func() { time.Sleep(1) }) }`, 0},
		{"a test that sleeps before a bubble", "internal/auth/x_test.go",
			`import ("testing/synctest"; "time"); func f() { time.Sleep(1); synctest.Test(nil, func() {}) }`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := parseSource(test.file, "package x; "+test.text)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := machineUses(s); len(wrong) != test.want {
				t.Errorf("%s has the forbidden uses %v, want %d", test.text, wrong, test.want)
			}
		})
	}
}

// Rules only write down what is wanted. A family's file may say what a driver gets
// of a resource, as a value; only loops have a driver to call.
func TestRulesCallNoDriver(t *testing.T) {
	t.Parallel()
	all := sources(t)
	drivers := map[string]bool{} // the interfaces of package driver
	for _, s := range all {
		if s.isTest() || s.dir != "internal/driver" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					drivers[spec.Name.Name] = true
				}
			}
			return true
		})
	}
	loops := 0
	for _, s := range all {
		if s.isTest() || !matches("internal/cloud/*", s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			name, ok := n.(*ast.SelectorExpr)
			if !ok || !drivers[name.Sel.Name] {
				return true
			}
			if pkg, ok := name.X.(*ast.Ident); !ok || pkg.Name != "driver" {
				return true
			}
			if loops++; s.name != "loop.go" && !strings.HasSuffix(s.name, "_loop.go") {
				t.Errorf("%s has a driver.%s, and is not a loop by its name", s.positions.Position(n.Pos()), name.Sel.Name)
			}
			return true
		})
	}
	if loops == 0 {
		t.Error("no loop has a driver: are they elsewhere now?")
	}
}
