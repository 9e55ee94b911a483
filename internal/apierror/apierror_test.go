package apierror_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// constant is a code as apierror.go declares it.
type constant struct {
	name string
	code apierror.Code
}

// declared reads the constants of apierror.go, in their order.
func declared(t *testing.T) (all []constant) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "apierror.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.ValueSpec)
			if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" || len(spec.Names) != 1 || len(spec.Values) != 1 {
				t.Fatalf("%s is not declared as one Code with its number", spec.Names[0])
			}
			number, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("the number of %s is not written out", spec.Names[0])
			}
			code, err := strconv.Atoi(number.Value)
			if err != nil {
				t.Fatalf("the number of %s: %v", spec.Names[0], err)
			}
			all = append(all, constant{spec.Names[0].Name, apierror.Code(code)})
		}
	}
	if len(all) == 0 {
		t.Fatal("apierror.go declares no code")
	}
	return all
}

// answer is what a caller sees of a code.
type answer struct {
	typ    string
	status int
}

// published reads testdata/catalogue.tsv: the columns code, type and
// http_status of the published catalogue, for the codes we use.
func published(t *testing.T) map[apierror.Code]answer {
	t.Helper()
	text, err := os.ReadFile("testdata/catalogue.tsv")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[apierror.Code]answer{}
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		if columns[0] == "code" {
			continue
		}
		if len(columns) != 3 {
			t.Fatalf("the line %q has no three columns", line)
		}
		code, err := strconv.Atoi(columns[0])
		if err != nil {
			t.Fatalf("the line %q: %v", line, err)
		}
		status, err := strconv.Atoi(columns[2])
		if err != nil {
			t.Fatalf("the line %q: %v", line, err)
		}
		answers[apierror.Code(code)] = answer{columns[1], status}
	}
	return answers
}

// differences are where we knowingly answer otherwise than the catalogue.
var differences = []struct {
	of     func(apierror.Code) bool
	change func(*answer)
	why    string
}{
	{
		func(c apierror.Code) bool { return c == apierror.NotPermitted }, func(a *answer) { a.status = 401 },
		"clients decode the error with the status 401 and show raw text with 403; an older catalogue says 401, too",
	},
	{
		func(c apierror.Code) bool { return c == apierror.AccountThrottled || c == apierror.CallThrottled },
		func(a *answer) { a.typ = "RequestLimitExceeded" },
		"one name for being throttled in all APIs: the others have no code to tell it by",
	},
	{
		func(c apierror.Code) bool { return c == apierror.UnknownAction }, func(a *answer) { a.status = 404 },
		"an action is a path, and nothing is there",
	},
	{
		func(c apierror.Code) bool { return c >= 10000 && c != 10001 }, func(a *answer) { a.typ = "TooManyResources (QuotaExceded)" },
		"the real service spells it so, whatever the catalogue says",
	},
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	answers := published(t)
	used := make([]bool, len(differences))
	for _, c := range declared(t) {
		want, ok := answers[c.code]
		if !ok {
			t.Errorf("testdata/catalogue.tsv lacks %s: add the line of %s in the published catalogue, or use a code that is in it", c.name, c.code)
			continue
		}
		delete(answers, c.code)
		for i, d := range differences {
			if d.of(c.code) {
				before := want
				if d.change(&want); want != before {
					used[i] = true
				}
			}
		}
		if got := (answer{c.code.Type(), c.code.Status()}); got != want {
			t.Errorf("%s (%s) answers %q with %d, want %q with %d", c.name, c.code, got.typ, got.status, want.typ, want.status)
		}
	}
	for code := range answers {
		t.Errorf("testdata/catalogue.tsv has %s, which no constant is: remove the line", code)
	}
	for i, d := range differences {
		if !used[i] {
			t.Errorf("nothing differs any more for this reason: %s", d.why)
		}
	}
}

func TestConstantsAreInOrder(t *testing.T) {
	t.Parallel()
	all := declared(t)
	for i, c := range all[1:] {
		if before := all[i]; before.code >= c.code {
			t.Errorf("%s (%s) stands after %s (%s)", c.name, c.code, before.name, before.code)
		}
	}
}

// A code that has no constant has the type of its range all the same.
func TestRanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code   apierror.Code
		typ    string
		status int
	}{
		{0, "DefaultError", 400},
		{7, "AccessDenied", 401},
		{1000, "DependencyProblem", 424},
		{1999, "DependencyProblem", 424},
		{2999, "InternalError", 500},
		{3999, "InvalidParameter", 400},
		{4999, "InvalidParameterValue", 400},
		{5000, "InvalidResource", 400},
		{5999, "InvalidResource", 400},
		{6000, "InvalidState", 409},
		{6999, "InvalidState", 409},
		{7999, "MissingParameter", 400},
		{8999, "OperationNotSupported", 400},
		{9999, "ResourceConflict", 409},
		{10000, "TooManyResources (QuotaExceded)", 400},
		{10001, "InsufficientCapacity", 400},
		{10002, "TooManyResources (QuotaExceded)", 400},
	} {
		if got := (answer{test.code.Type(), test.code.Status()}); got != (answer{test.typ, test.status}) {
			t.Errorf("%s answers %q with %d, want %q with %d", test.code, got.typ, got.status, test.typ, test.status)
		}
	}
}

func TestErrorf(t *testing.T) {
	t.Parallel()
	err := apierror.NetInUse.Errorf("The Net %s is in use by %d Subnets.", "vpc-1", 2)
	if got, want := err.Error(), "ResourceConflict (9097): The Net vpc-1 is in use by 2 Subnets."; got != want {
		t.Errorf("the error reads %q, want %q", got, want)
	}
	if got := apierror.From(apierror.AuthenticationFailed.Bare()); *got != (apierror.Error{Code: apierror.AuthenticationFailed}) {
		t.Errorf("a bare fault has the details %q", got.Details)
	}
}

var errDisk = errors.New("the disk is gone")

func TestIs(t *testing.T) {
	t.Parallel()
	taken := apierror.EmailTaken.Errorf("It is taken.")
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"the fault", taken, true},
		{"bare", apierror.EmailTaken.Bare(), true},
		{"wrapped", fmt.Errorf("making an account: %w", taken), true},
		{"joined", errors.Join(errDisk, taken), true},
		{"under a parameter", apierror.In("Email", taken), true},
		{"another fault", apierror.UserNameTaken.Errorf("It is taken."), false},
		{"no fault", errDisk, false},
		{"the same words", errors.New(taken.Error()), false},
		{"no error", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := apierror.EmailTaken.Is(test.err); got != test.want {
				t.Errorf("Is(%v) = %t, want %t", test.err, got, test.want)
			}
		})
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	taken := apierror.Error{Code: apierror.EmailTaken, Details: "It is taken."}
	for _, test := range []struct {
		name string
		err  error
		want apierror.Error
	}{
		{"a fault", &taken, taken},
		{"wrapped", fmt.Errorf("making an account: %w", &taken), taken},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := apierror.From(test.err); *got != test.want {
				t.Errorf("From(%v) = %v, want %v", test.err, *got, test.want)
			}
		})
	}
	// Callers do not learn what goes wrong inside.
	got := apierror.From(fmt.Errorf("committing: %w", errDisk))
	if got.Code != apierror.Internal || got.Details == "" || strings.Contains(got.Details, "disk") {
		t.Errorf("From shows the caller %v", got)
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	inner := apierror.InvalidIP.Errorf("'x' is no address.")
	for _, test := range []struct {
		name string
		err  error
		code apierror.Code // 0: it is no fault
		says string
	}{
		{"a fault", apierror.In("PublicIp", inner), apierror.InvalidIP, "InvalidParameterValue (4133): PublicIp: 'x' is no address."},
		{"twice", apierror.In("Nics", apierror.In("PublicIp", inner)), apierror.InvalidIP,
			"InvalidParameterValue (4133): Nics: PublicIp: 'x' is no address."},
		{"wrapped", apierror.In("PublicIp", fmt.Errorf("linking: %w", inner)), apierror.InvalidIP,
			"InvalidParameterValue (4133): PublicIp: 'x' is no address."},
		{"no fault", apierror.In("PublicIp", errDisk), 0, "PublicIp: the disk is gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.err.Error() != test.says {
				t.Errorf("the error reads %q, want %q", test.err, test.says)
			}
			if test.code != 0 && !test.code.Is(test.err) || test.code == 0 && !errors.Is(test.err, errDisk) {
				t.Errorf("%v has lost its code or its cause", test.err)
			}
		})
	}
}

func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	err := apierror.InvalidValue.Errorf("'%s' is no name.", strings.Repeat("é", 1<<20))
	details := apierror.From(err).Details
	if len(details) > 600 || !utf8.ValidString(details) || !strings.HasSuffix(details, "…") {
		t.Errorf("a sentence of %d bytes ends in %q", len(details), details[len(details)-8:])
	}
}
