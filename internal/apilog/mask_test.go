package apilog

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMaskHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"User-Agent":           {"osc-cli/1.11.0"},
		"Authorization":        {"OSC4-HMAC-SHA256 Credential=ABC, Signature=hunter2"},
		"Proxy-Authorization":  {"Basic hunter2"},
		"Cookie":               {"session=hunter2", "other=hunter2"},
		"X-Amz-Security-Token": {"hunter2"},
		"x-secret-key":         {"hunter2"},
		"X-Api-Key":            {"hunter2"},
		"x-api-key":            {"hunter2"},
		"Referer":              {"https://example.com/?key=hunter2"},
		"Accept":               {"*/*", "text/html"},
	}
	want := strings.Join([]string{
		"Host: api.eu-west-2.example.com",
		"Accept: */*",
		"Accept: text/html",
		"Authorization: *****",
		"Cookie: *****",
		"Cookie: *****",
		"Proxy-Authorization: *****",
		"Referer: *****",
		"User-Agent: osc-cli/1.11.0",
		"X-Amz-Security-Token: *****",
		"X-Api-Key: *****",
		"x-api-key: *****",
		"x-secret-key: *****",
	}, `\n`)
	if got := MaskHeader(h, "api.eu-west-2.example.com"); got != want {
		t.Errorf("MaskHeader:\n got %s\nwant %s", got, want)
	}
}

const form = "application/x-www-form-urlencoded; charset=utf-8"

func TestMaskPayload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, contentType, body, want string }{
		{"empty", "", ``, ``},
		{"no secret", "application/json", `{"Size": 10,  "Name":"é"}`, `{"Size": 10,  "Name":"é"}`},
		{"no document and no secret", "text/plain", `{"Size": 10`, `{"Size": 10`},
		{"a password", "application/json", `{"Login":"me", "Password" : "hunter2" ,"DryRun":true}`,
			`{"Login":"me", "Password" : "*****" ,"DryRun":true}`},
		{"a password of another type", "application/json", `{"Password":{"a":["}",2]},"X":1}`, `{"Password":"*****","X":1}`},
		{"a password that is a number", "application/json", `{"Password":12}`, `{"Password":"*****"}`},
		{"said twice", "application/json", `{"Password":"a","Password":"b"}`, `{"Password":"*****","Password":"*****"}`},
		{"deep", "application/json", `{"OsuExport":{"OsuApiKey":{"ApiKeyId":"A","SecretKey":"hunter2"}}}`,
			`{"OsuExport":{"OsuApiKey":{"ApiKeyId":"A","SecretKey":"*****"}}}`},
		{"in a list", "application/json", `[{"bgpKey":"a"},{"PreSharedKey":"b"},{"authKey":"c"},{"secretAccessKey":"d"},` +
			`{"PrivateKey":"e"},{"NewPassword":"f"},{"Token":"g"}]`,
			`[{"bgpKey":"*****"},{"PreSharedKey":"*****"},{"authKey":"*****"},{"secretAccessKey":"*****"},{"PrivateKey":"*****"},` +
				`{"NewPassword":"*****"},{"Token":"*****"}]`},
		{"user data", "application/json", `{"ImageId":"ami-1","UserData":"IyEvYmluL3No","VmType":"t"}`,
			`{"ImageId":"ami-1","UserData":"*****","VmType":"t"}`},
		{"user data of a form", form, `Action=RunInstances&UserData=IyEvYmluL3No`, `Action=RunInstances&UserData=*****`},
		{"another case", "application/json", `{"SECRETKEY":"a","pre_shared-key":"b"}`, `{"SECRETKEY":"*****","pre_shared-key":"*****"}`},
		{"an escaped name", "application/json", `{"\u0053ecretKe\u0079":"a"}`, `{"\u0053ecretKe\u0079":"*****"}`},
		{"what is public", "application/json", `{"CaPem":"a\n=b","NextPageToken":"dG9rZW4=","Filters":{"ClientTokens":["c"]},` +
			`"ClientToken":"d"}`, `{"CaPem":"a\n=b","NextPageToken":"dG9rZW4=","Filters":{"ClientTokens":["c"]},"ClientToken":"d"}`},
		{"talk of secrets", "application/json", `{"Description":"token, or password?","Actions":["api:ReadSecretAccessKey"]}`,
			`{"Description":"token, or password?","Actions":["api:ReadSecretAccessKey"]}`},
		{"a document in a text", "application/json", `{"Document":"{\"Action\":\"api:ReadSecretAccessKey\", \"Password\":\"hunter2\"}"}`,
			`{"Document":"{\"Action\":\"api:ReadSecretAccessKey\", \"Password\":\"*****\"}"}`},
		{"a policy in a text", "application/json", `{"Document":"{\"Action\":\"api:ReadSecretAccessKey\"}"}`,
			`{"Document":"{\"Action\":\"api:ReadSecretAccessKey\"}"}`},
		{"half a document in a text", "application/json", `{"Document":"{\"Password\":\"hunter2"}`, `{"Document":"*****"}`},
		{"a key in the wrong field", "application/json", `{"Body":"-----BEGIN RSA PRIVATE KEY-----\nhunter2"}`, `{"Body":"*****"}`},
		{"a URL that gives a right", "application/json",
			`{"FileLocation":"https:\/\/oos.example.com/b/k?Expires=1&Signature=hunter2","SnapshotSize":1}`,
			`{"FileLocation":"*****","SnapshotSize":1}`},
		{"a URL that gives none", "application/json", `{"FileLocation":"https://oos.example.com/b/k","Password":"hunter2"}`,
			`{"FileLocation":"https://oos.example.com/b/k","Password":"*****"}`},
		{"a private key for a public one, in Base64", "application/json",
			`{"KeypairName":"mine","PublicKey":"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt"}`, `{"KeypairName":"mine","PublicKey":"*****"}`},
		{"a name that holds the secret", "application/json", `{"Password=hunter2":1}`, unreadable},
		{"half a document", "application/json", `{"Password":"hunter2`, unreadable},
		{"half an escaped document", "application/json", `{"Pass\u0077ord":"hunter2`, unreadable},
		{"a document and more", "application/json", `{"Password":"hunter2"} hunter2`, unreadable},
		{"two bytes a character", "application/json", "{\x00\"\x00P\x00a\x00s\x00s\x00", unreadable},
		{"a form", form, `Action=AuthenticateAccount&Login=me%40example.com&Password=hunter2&Version=1`,
			`Action=AuthenticateAccount&Login=me%40example.com&Password=*****&Version=1`},
		{"a form without a type", "", `Password=hunter2&`, `Password=*****&`},
		{"a form with paths", form, `Options.1.PreSharedKey=a&AccessKeys.member.1.SecretAccessKey=b&Token.1=c&NextToken=d`,
			`Options.1.PreSharedKey=*****&AccessKeys.member.1.SecretAccessKey=*****&Token.1=*****&NextToken=d`},
		{"a form that talks of secrets", form, `Action=ReadSecretAccessKey&Description=my+password`,
			`Action=ReadSecretAccessKey&Description=my+password`},
		{"a form with an escaped name", form, `P%61ssword=hunter2`, `P%61ssword=*****`},
		{"a document in a form", form, `Document=%7B%22Password%22%3A%22hunter2%22%7D`, `Document=%7B%22Password%22%3A%22%2A%2A%2A%2A%2A%22%7D`},
		{"a form in a form", form, `Next=Password%3Dhunter2`, `Next=%2A%2A%2A%2A%2A`},
		{"a form with a secret for a name", form, `Password%3Dhunter2=1`, unreadable},
		{"a form with spaces", form, `a=1 Password: hunter2&b=`, unreadable},
		{"a form that escapes badly", form, `Password=hunter%2`, unreadable},
		{"a form with an ampersand in a password", form, `Password=hun&ter2`, unreadable},
		{"a document called a form", form, `{"a":"x=1","Password":"hun&ter2"`, unreadable},
		{"a form called a document", "application/json", `Password=hunter2`, unreadable},
		{"XML", "text/xml", `<Password>hunter2</Password>`, unreadable},
	} {
		if got := MaskPayload([]byte(test.body), test.contentType); got != test.want {
			t.Errorf("%s: MaskPayload(%s):\n got %s\nwant %s", test.name, test.body, got, test.want)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", maxRaw)
	for _, test := range []struct{ name, body, prefix string }{
		{"between characters", "x" + long, "xé"},
		{"after masking", `{"Password":"hunter2` + long + `","Login":"` + long + `"}`, `{"Password":"*****","Login":"é`},
	} {
		got := MaskPayload([]byte(test.body), "application/json")
		if len(got) > maxRaw || len(got) < maxRaw-utf8.UTFMax || !utf8.ValidString(got) || !strings.HasPrefix(got, test.prefix) {
			t.Errorf("%s: got %d bytes, valid %t, %.40s…; want at most %d, whole characters, %s…", test.name, len(got), utf8.ValidString(got),
				got, maxRaw, test.prefix)
		}
	}
	if got := MaskHeader(http.Header{"A": {long}}, "host"); len(got) > maxRaw || !strings.HasPrefix(got, `Host: host\nA: é`) {
		t.Errorf("a long header: got %d bytes, %.40s…; want at most %d", len(got), got, maxRaw)
	}
}

// A body may be made so that looking through it is slow: the time must grow
// with its length and no faster. A megabyte that grew with the square would
// run until the tests are stopped.
func TestMaskPayloadIsLinear(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{`\`, `%20`, `s-`, `pre-`, `[`, `"`, `{"a":`, `{"Token":`, `\u0053`, `Token=&`, `"Token",`} {
		body := strings.Repeat(unit, 1<<20/len(unit))
		for _, contentType := range []string{"application/json", form} {
			if got := MaskPayload([]byte(body), contentType); len(got) > maxRaw {
				t.Errorf("%s as %s: got %d bytes, want at most %d", unit, contentType, len(got), maxRaw)
			}
			MaskPayload([]byte(`["`+body+`","Token=1"]`), contentType)
		}
	}
}

// FuzzMaskPayload puts a secret under one of the names of secrets, the pair
// anywhere, and that in texts of documents: it must never be seen.
func FuzzMaskPayload(f *testing.F) {
	const secret = "S3CR3T0F0URS"
	names := []string{
		"SecretKey", "secretAccessKey", "PASSWORD", "AdminPassword", "PrivateKey", "BgpKey", "PreSharedKey", "pre_shared_key",
		"Token", "authKey", `\u0053ecretKey`, "%53ecretKey", "NewPassword",
	}
	types := []string{"application/json", form, "", "text/plain"}
	f.Add(`{"a":1,`, `}`, uint8(0), uint8(0), uint8(0), true)
	f.Add(`{"a":[{`, `}]}`, uint8(3), uint8(0), uint8(2), true)
	f.Add(`a=b&`, `&c=d`, uint8(4), uint8(1), uint8(0), false)
	f.Add(`{"a":"`, `"}`, uint8(5), uint8(1), uint8(1), false)
	f.Add(`a=%7B`, `%7D`, uint8(11), uint8(2), uint8(0), false)
	f.Add(`{"x\`, `":1}`, uint8(1), uint8(0), uint8(0), true)
	f.Add(`<a>`, "\n", uint8(2), uint8(3), uint8(0), false)
	f.Fuzz(func(t *testing.T, before, after string, name, contentType, depth uint8, asJSON bool) {
		if strings.Contains(before+after, secret) {
			t.Skip()
		}
		pair := names[int(name)%len(names)]
		if asJSON {
			pair = `"` + pair + `":"` + secret + `"`
		} else {
			pair += "=" + secret
		}
		body := before + pair + after
		for range depth % 4 {
			text, _ := jsontext.AppendQuote(nil, body)
			body = `{"Document":` + string(text) + `}`
		}
		got := MaskPayload([]byte(body), types[int(contentType)%len(types)])
		if strings.Contains(got, secret) {
			t.Errorf("the secret of %q is seen in %q", body, got)
		}
	})
}
