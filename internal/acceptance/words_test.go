package acceptance

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// wording forbids a word in comments and strings of product code, and in the
// documents.
type wording struct {
	name string // in exceptions
	not  *regexp.Regexp
	but  string
}

// phrase matches whole words, in either case.
func phrase(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`)
}

// The words that the project does not use, because the field has others.
var wordings = []wording{
	{"world", phrase(`world`), "the infrastructure, the driver, or the host"},
	{"chance", phrase(`chance`), "randomness"},
	{"whoever", phrase(`whoever|somebody|nobody|anybody`), "the caller, the reader, no node: name the actor"},
	{"shall", phrase(`shall`), "must, will"},
	{"to be", phrase(`(?:is|are|was|were) to be|be it|be they`), "must be, or another sentence"},
	{"that of", phrase(`that of|those of`), "the noun itself"},
	{"told", phrase(`tells|told|hears|heard`), "returns, notifies, is notified, reports, shows"},
	{"goes with", phrase(`goes? with`), "is compatible with"},
	{"most", phrase(`at the most|as good as none|for so long`), "at most, none, as long"},
	{"answers", regexp.MustCompile(`^\w+ answers |\b[Ii]t answers `), "returns"},
	{"sweep", phrase(`sweeps?`), "resync"},
	{"pace", phrase(`pace`), "backoff"},
	{"settled", phrase(`unsettled|settled`), "pending, up to date, idle"},
	{"forsake", phrase(`forsakes?|glances?|bury|buried|lanes?`), "invalidate, barrier, delete, queue"},
	{"people", phrase(`a person|a town`), "an account, a region"},
}

// otherWords are the packages that do not have these words yet.
var otherWords = []string{"internal/cloud/compute", "internal/cloud/network", "internal/cloud/iam"}

// maxColumns is the maximum length of a line in characters.
const maxColumns = 140

// allowedWords are the uses of a word that stay, by file and name of the word,
// with the reason.
var allowedWords = map[string]string{
	"internal/store/sqljournal/dump.go: settled":            "a column of the journal's schema",
	"internal/store/sqljournal/postgres.go: settled":        "a column of the journal's schema",
	"internal/store/sqljournal/postgres_schema.go: settled": "a column of the journal's schema",
	"internal/store/sqljournal/postgres_tx.go: settled":     "a column of the journal's schema",
	"internal/store/sqljournal/sqlite.go: settled":          "a column of the journal's schema",
	"internal/bench/nodes.go: settled":                      "a column of the journal's schema",
	"internal/reconcile/job.go: sweep":                      "a label of a metric",
	"internal/reconcile/reconcile.go: sweep":                "a label of a metric",
	"internal/region/collector.go: world":                   "what Go's garbage collector stops",
}

// text is a text that people read: a comment, a string, or a paragraph.
type text struct {
	file string
	line int
	text string
}

// textsOfGo returns the comments, each group as one text, and the strings of Go
// code, without the paths of imports.
func textsOfGo(name string, code []byte) (all []text) {
	positions := token.NewFileSet()
	file := positions.AddFile(name, -1, len(code))
	var s scanner.Scanner
	s.Init(file, code, nil, scanner.ScanComments)
	last := -1 // line of the comment before
	for {
		pos, kind, literal := s.Scan()
		line := file.Line(pos)
		switch kind {
		case token.EOF:
			return all
		case token.COMMENT:
			comment := strings.TrimSpace(strings.Trim(literal, "/*"))
			if last == line-1 && last >= 0 {
				all[len(all)-1].text += " " + comment
			} else {
				all = append(all, text{name, line, comment})
			}
			last = line
		case token.STRING:
			if unquoted, err := strconv.Unquote(literal); err == nil && strings.Contains(unquoted, " ") {
				all = append(all, text{name, line, strings.Join(strings.Fields(unquoted), " ")})
			}
			last = -1
		case token.SEMICOLON:
		default:
			last = -1
		}
	}
}

// textsOfMarkdown returns the paragraphs and the rows of tables of a document,
// without blocks of code.
func textsOfMarkdown(name string, document []byte) (all []text) {
	inCode, open := false, false
	for i, line := range strings.Split(string(document), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			inCode, open = !inCode, false
		case inCode || trimmed == "":
			open = false
		case open && !strings.HasPrefix(trimmed, "|"):
			all[len(all)-1].text += " " + trimmed
		default:
			all = append(all, text{name, i + 1, trimmed})
			open = !strings.HasPrefix(trimmed, "|")
		}
	}
	return all
}

// longLines returns the numbers of the lines that have too many columns. In a
// document, rows of tables cannot be broken, and blocks of code show what a
// program prints.
func longLines(name string, content []byte) (numbers []int) {
	inCode := false
	for i, line := range strings.Split(string(content), "\n") {
		if strings.HasSuffix(name, ".md") {
			if strings.HasPrefix(line, "```") {
				inCode = !inCode
			}
			if inCode || strings.HasPrefix(line, "|") {
				continue
			}
		}
		if utf8.RuneCountInString(line) > maxColumns {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// wrongWords returns the forbidden words of a text.
func wrongWords(t text) (wrong []wording) {
	for _, w := range wordings {
		if w.not.MatchString(t.text) {
			wrong = append(wrong, w)
		}
	}
	return wrong
}

// documents calls fn with each file of Go and each document of the module.
func documents(t *testing.T, fn func(name string, content []byte)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains([]string{".go", ".md"}, path.Ext(name)):
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err == nil {
			fn(name, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Engineers and operators read one language, the field's, in comments, errors and
// documents. Tests may have words of their own.
func TestWords(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	documents(t, func(name string, content []byte) {
		if slices.ContainsFunc(otherWords, func(pattern string) bool { return matches(pattern, path.Dir(name)) }) {
			return
		}
		for _, number := range longLines(name, content) {
			t.Errorf("%s:%d has more than %d columns", name, number, maxColumns)
		}
		var texts []text
		switch {
		case strings.HasSuffix(name, "_test.go"):
		case strings.HasSuffix(name, ".go"):
			texts = textsOfGo(name, content)
		default:
			texts = textsOfMarkdown(name, content)
		}
		for _, text := range texts {
			for _, w := range wrongWords(text) {
				exception := name + ": " + w.name
				used[exception] = true
				if allowedWords[exception] == "" {
					t.Errorf("%s:%d: %q: say %s in %.300q", name, text.line, w.not.FindString(text.text), w.but, text.text)
				}
			}
		}
	})
	for exception, why := range allowedWords {
		if !used[exception] {
			t.Errorf("%s is allowed and not used: %s", exception, why)
		}
	}
}

func TestWordsAreSeen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"x.go", "package x // the world has it", []string{"world"}},
		{"x.go", "package x\n\n// A driver is\n// told of it.\nvar x int", []string{"told"}},
		{"x.go", "package x\n\n// A sum that\n// of which is small, and is to\n// be.\nvar x int", []string{"that of", "to be"}},
		{"x.go", "package x\n\n/* nobody */\nvar x int", []string{"whoever"}},
		{"x.go", "package x\n\nvar x = \"it shall be\"", []string{"shall"}},
		{"x.go", "package x\n\nvar x = `it\nshall be`", []string{"shall"}},
		{"x.go", "package x\n\n// f answers nil.\nfunc f() {}", []string{"answers"}},
		{"x.go", "package x\n\n// It has the answers to a question.\nvar x = \"shall\"", nil},
		{"x.go", "package x\n\nimport \"example.com/world\"\n\n// One has it.\nvar nobody, x int", nil},
		{"x.go", "package x\n\n// It is that\nvar of int // told\n", []string{"told"}},
		{"x.md", "# Title\n\nA sentence that\ngoes\nwith it.\n", []string{"goes with"}},
		{"x.md", "| a | Somebody |\n|---|---|\n", []string{"whoever"}},
		{"x.md", "```\nthe world\n```\nA sentence.\n", nil},
	} {
		texts := textsOfMarkdown
		if path.Ext(test.name) == ".go" {
			texts = textsOfGo
		}
		var got []string
		for _, text := range texts(test.name, []byte(test.text)) {
			for _, w := range wrongWords(text) {
				got = append(got, w.name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("%s %q has the forbidden words %q, want %q", test.name, test.text, got, test.want)
		}
	}
	for _, w := range wordings {
		if w.not.MatchString(w.but) {
			t.Errorf("for %s the test suggests %q, which it forbids", w.name, w.but)
		}
	}
	long := strings.Repeat("é", maxColumns+1)
	for _, test := range []struct {
		name, text string
		want       int
	}{
		{"x.go", long[2:] + "\n" + long, 1},
		{"x.md", long + "\n| " + long + "\n```\n" + long + "\n```\n" + long, 2},
	} {
		if got := longLines(test.name, []byte(test.text)); len(got) != test.want {
			t.Errorf("%s has the long lines %d, want %d", test.name, got, test.want)
		}
	}
}
