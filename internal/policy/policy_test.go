package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, text string) *Document {
	t.Helper()
	doc, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return doc
}

// words are the effects as the table calls them.
var words = map[string]Effect{"uncovered": Uncovered, "allowed": Allowed, "denied": Denied}

func TestDecisions(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/decisions.txt")
	if err != nil {
		t.Fatal(err)
	}
	decided := 0
	for block := range strings.SplitSeq(string(table), "\n\n") {
		var texts []string
		var policies []Policy
		for line := range strings.Lines(block) {
			word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			want, isEffect := words[word]
			switch {
			case word == "policy":
				texts = append(texts, rest)
				policies = append(policies, Policy{fmt.Sprint("policy ", len(policies)), mustParse(t, rest)})
			case isEffect:
				for name := range strings.FieldsSeq(rest) {
					decided++
					if got := Decide(policies, action(name)); got.Effect != want {
						t.Errorf("%s: %s, want %s, by %q", name, got, word, texts)
					}
					if got := slowly(texts, name); got != want {
						t.Errorf("%s: the slow evaluator says %d, want %s, by %q", name, got, word, texts)
					}
				}
			case word != "" && !strings.HasPrefix(word, "#"):
				t.Fatalf("%q is no line of the table", line)
			}
		}
	}
	if decided < 200 {
		t.Errorf("the table has %d decisions", decided)
	}
}

func action(name string) Action {
	service, name, _ := strings.Cut(name, ":")
	return Action{service, name}
}

// slowly decides by documents as their authors read them: each time anew, with
// general means, and without regard to speed.
func slowly(documents []string, name string) Effect {
	if !regexp.MustCompile(`^(api|ec2|elasticloadbalancing|iam|directconnect):`).MatchString(name) {
		return Uncovered
	}
	effects := map[string]bool{}
	for _, text := range documents {
		var document struct {
			Statement []struct {
				Effect            string
				Action, NotAction []string
			}
		}
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			panic(err)
		}
		for _, s := range document.Statement {
			if s.Action != nil && anyMatches(s.Action, name) || s.NotAction != nil && !anyMatches(s.NotAction, name) {
				effects[s.Effect] = true
			}
		}
	}
	switch {
	case effects["Deny"]:
		return Denied
	case effects["Allow"]:
		return Allowed
	}
	return Uncovered
}

func anyMatches(patterns []string, name string) bool {
	for _, p := range patterns {
		if regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$").MatchString(name) {
			return true
		}
	}
	return false
}

// Random policies decide as the slow evaluator reads them.
func TestDecisionsAreThoseOfTheSlowEvaluator(t *testing.T) {
	t.Parallel()
	service := rapid.SampledFrom(append([]string{"*"}, Services...))
	name := rapid.StringMatching(`[ABa]{0,2}(\*[ABa]{0,2}){0,3}`).Filter(func(s string) bool { return s != "" })
	pattern := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 19).Draw(t, "all") == 19 {
			return "*"
		}
		return service.Draw(t, "service") + ":" + name.Draw(t, "name")
	})
	document := rapid.Custom(func(t *rapid.T) string {
		var statements []map[string]any
		for range rapid.IntRange(1, 4).Draw(t, "statements") {
			statements = append(statements, map[string]any{
				rapid.SampledFrom([]string{"Action", "Action", "NotAction"}).Draw(t, "element"): rapid.SliceOfN(pattern, 1, 3).Draw(t, "patterns"),
				"Effect":   rapid.SampledFrom([]string{"Allow", "Allow", "Deny"}).Draw(t, "effect"),
				"Resource": []string{"*"},
			})
		}
		text, err := json.Marshal(map[string]any{"Statement": statements})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	})
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(document, 0, 3).Draw(t, "documents")
		var policies []Policy
		for i, text := range texts {
			doc, err := Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			policies = append(policies, Policy{fmt.Sprint(i), doc})
		}
		services := rapid.SampledFrom(append([]string{"icu"}, Services...))
		for range 10 {
			asked := services.Draw(t, "of") + ":" + rapid.StringMatching(`[ABa]{1,5}`).Draw(t, "action")
			if got, want := Decide(policies, action(asked)).Effect, slowly(texts, asked); got != want {
				t.Errorf("%s: %d, and %d by the slow evaluator, by %q", asked, got, want, texts)
			}
		}
	})
}

// A decision names the statement that decided.
func TestDecisionNamesItsStatement(t *testing.T) {
	t.Parallel()
	policies := []Policy{
		{"first", mustParse(t, `{"Statement": [
			{"Effect": "Allow", "Action": ["api:Create*"], "Resource": ["*"]},
			{"Sid": "Look", "Effect": "Allow", "Action": ["api:Read*"], "Resource": ["*"]}]}`)},
		{"second", mustParse(t, `{"Statement": [{"Sid": "Bills", "Effect": "Deny", "Action": ["api:ReadCatalog"], "Resource": ["*"]}]}`)},
	}
	for name, want := range map[string]string{
		"api:CreateNet":   "allowed by Statement[0] of first",
		"api:ReadNets":    `allowed by Statement[1] (Sid "Look") of first`,
		"api:ReadCatalog": `denied by Statement[0] (Sid "Bills") of second`,
		"api:DeleteNet":   "no statement allows it",
		"icu:GetAccount":  "no statement allows it",
	} {
		if got := Decide(policies, action(name)).String(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// ten are ten policies of twenty statements, the last of which allows the last
// action.
func ten(t testing.TB) []Policy {
	var policies []Policy
	for i := range 10 {
		var statements []string
		for j := range 20 {
			effect := "Allow"
			if j%4 == 3 {
				effect = "Deny"
			}
			statements = append(statements, fmt.Sprintf(
				`{"Sid": "S%d", "Effect": %q, "Action": ["api:Read%dThing*", "api:*Other%d", "ec2:Describe*"], "Resource": ["*"]}`,
				j, effect, 20*i+j, 20*i+j))
		}
		policies = append(policies, Policy{fmt.Sprint("policy ", i), mustParse(t, `{"Statement": [`+strings.Join(statements, ",")+`]}`)})
	}
	return policies
}

func TestDecisionsAllocateNothing(t *testing.T) {
	policies, asked := ten(t), Action{"api", "Read198ThingsAndMore"}
	if got := Decide(policies, asked); got.Effect != Allowed {
		t.Fatalf("%s", got)
	}
	if n := testing.AllocsPerRun(100, func() { Decide(policies, asked) }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

// BenchmarkDecide decides by 10 policies of 20 statements with 3 actions each.
func BenchmarkDecide(b *testing.B) {
	policies, asked := ten(b), Action{"api", "Read198ThingsAndMore"}
	b.ReportAllocs()
	for b.Loop() {
		if Decide(policies, asked).Effect != Allowed {
			b.Fatal("not allowed")
		}
	}
}
