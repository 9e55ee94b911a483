package policy

import (
	"strings"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const ok = `{"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}`
	for _, test := range []struct{ text, want string }{
		{``, `the JSON document ends too early`},
		{`hello`, `near byte 0, it is not JSON`},
		{`[]`, `it must be a JSON object`},
		{`"text"`, `it must be a JSON object`},
		{`null`, `it must be a JSON object`},
		{`{`, `ends too early`},
		{`{}`, `Statement is required`},
		{`{"Statement": []}`, `Statement: it must have at least one item`},
		{`{"Statement": ` + ok + `}`, `Statement: it must be a list`},
		{`{"Statement": ["Allow"]}`, `Statement[0]: it must be a JSON object`},
		{`{"Statement": [` + ok, `ends too early`},
		{`{"Statement": [` + ok + `}`, `it is not JSON`},
		{`{"Statement": [` + ok + `]} {}`, `something follows the policy`},
		{`{"Statement": [` + ok + `], "Statement": [` + ok + `]}`, `given twice`},
		{`{"Statement": [` + ok + `], "Id": "x"}`, `Id: there is no such element: a policy has Statement`},
		{`{"Version": "2012-10-17", "Statement": [` + ok + `]}`, `Version: policies have no version`},
		{`{"statement": [` + ok + `]}`, `statement: upper and lower case differ: the element is called Statement`},
		{
			`{"Statement": [` + ok + `, {"Effect": "Allow", "action": ["*"], "Resource": ["*"]}]}`,
			`Statement[1].action: upper and lower case differ: the element is called Action`,
		},
		{`{"Statement": [{"Action": ["*"], "Resource": ["*"]}]}`, `Statement[0]: Effect is required`},
		{`{"Statement": [{"Effect": "Allow", "Action": ["*"]}]}`, `Statement[0]: Resource is required`},
		{`{"Statement": [{"Effect": "Allow", "Resource": ["*"]}]}`, `Statement[0]: Action or NotAction is required`},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["*"], "NotAction": ["*"], "Resource": ["*"]}]}`,
			`Statement[0]: Action and NotAction exclude each other`,
		},
		{
			`{"Statement": [{"Effect": "allow", "Action": ["*"], "Resource": ["*"]}]}`,
			`Statement[0].Effect: 'allow' is neither Allow nor Deny`,
		},
		{
			`{"Statement": [{"Effect": true, "Action": ["*"], "Resource": ["*"]}]}`,
			`Statement[0].Effect: it must be a string`,
		},
		{`{"Statement": [{"Effect": "Allow", "Effect": "Deny", "Action": ["*"], "Resource": ["*"]}]}`, `given twice`},
		{
			`{"Statement": [{"Sid": 1, "Effect": "Allow", "Action": ["*"], "Resource": ["*"]}]}`,
			`Statement[0].Sid: it must be a string`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": ["*"]}]}`,
			`Statement[0].Action: it must be a list`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": [], "Resource": ["*"]}]}`,
			`Statement[0].Action: it must have at least one item`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": [1], "Resource": ["*"]}]}`,
			`Statement[0].Action[0]: it must be a string`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "NotAction": ["*", ""], "Resource": ["*"]}]}`,
			`Statement[0].NotAction[1]: '' names no service`,
		},
		{
			`{"Statement": [` + ok + `,
			` + ok + `, {"Effect": "Allow", "Action": ["CreateNet"], "Resource": ["*"]}]}`, `Statement[2].Action[0]: 'CreateNet' names no service`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["*"]}]}`,
			`Statement[0].Action[0]: 's3' is not a service of policies: the services are api, ec2`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["fcu:TerminateInstances"], "Resource": ["*"]}]}`,
			`'fcu' is not a service of policies: in policies it is called ec2`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["icu:*"], "Resource": ["*"]}]}`,
			`'icu' is not a service of policies`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["API:ReadNets"], "Resource": ["*"]}]}`,
			`'API' is not a service`,
		},
		{`{"Statement": [{"Effect": "Allow", "Action": ["a*:ReadNets"], "Resource": ["*"]}]}`, `'a*' is not a service`},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["api:"], "Resource": ["*"]}]}`,
			`'' is not the name of an action`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["api:Read?ets"], "Resource": ["*"]}]}`,
			`'Read?ets' is not the name of an action: it has letters, digits and asterisks`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["api: ReadNets"], "Resource": ["*"]}]}`,
			`' ReadNets' is not the name`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": "*"}]}`,
			`Statement[0].Resource: it must be a list`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["orn:ows:ec2:eu-west-2:123456789012:instance/i-12345678"]}]}`,
			`Statement[0].Resource[0]: 'orn:ows:ec2:eu-west-2:123456789012:instance/i-1234' is not *: resource-based policies are not supported`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["*"], "NotResource": ["*"]}]}`,
			`Statement[0].NotResource: resource-based policies are not supported`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["*"], "Resource": ["*"]}]}`,
			`Statement[0].Principal: resource-based policies are not supported`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["*"], "Condition": {}}]}`,
			`Statement[0].Condition: conditions are not supported`,
		},
		{
			`{"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["*"], "Comment": ""}]}`,
			`Statement[0].Comment: there is no such element: a statement has Sid`,
		},
	} {
		doc, err := Parse(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
		if doc != nil {
			t.Errorf("%s: a document and an error", test.text)
		}
	}
}

// A document that is read decides, and one that is not is refused: neither fails
// otherwise.
func FuzzParse(f *testing.F) {
	f.Add(`{"Statement": [{"Effect": "Allow", "Action": ["api:*", "*"], "Resource": ["*"]}]}`)
	f.Add(`{"Statement": [{"Effect": "Deny", "NotAction": ["ec2:A*b*C"], "Sid": "x", "Resource": ["*"]}]}`)
	f.Add(`{"Statement": [{`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := Parse(text)
		if err != nil {
			return
		}
		if got, want := Decide([]Policy{{"fuzzed", doc}}, Action{"api", "ReadNets"}).Effect, slowly([]string{text}, "api:ReadNets"); got != want {
			t.Errorf("%s: %d, and %d by the slow evaluator", text, got, want)
		}
	})
}
