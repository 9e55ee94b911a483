package auth

import (
	"encoding/base64"
	"testing"
)

func TestParseBasic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, header, login, password string
		ok                            bool
	}{
		{"standard alphabet", "Basic YUBiLmM6Pj4/Pz4+", "a@b.c", ">>??>>", true},
		{"URL alphabet", "Basic YUBiLmM6Pj4_Pz4-", "a@b.c", ">>??>>", true},
		{"padding", "Basic YUBiLmM6cHc=", "a@b.c", "pw", true},
		{"no padding", "Basic YUBiLmM6cHc", "a@b.c", "pw", true},
		{"scheme in other letters", "bASIC YUBiLmM6cHc=", "a@b.c", "pw", true},
		{"more spaces", " Basic   YUBiLmM6cHc= ", "a@b.c", "pw", true},
		{"colon in the password", "Basic " + base64.StdEncoding.EncodeToString([]byte("a:b:c")), "a", "b:c", true},
		{"empty password", "Basic " + base64.StdEncoding.EncodeToString([]byte("a:")), "a", "", true},
		{"no colon", "Basic " + base64.StdEncoding.EncodeToString([]byte("a")), "", "", false},
		{"both alphabets at once", "Basic YUBiLmM6Pj4/Pz4-", "", "", false},
		{"not base64", "Basic a@b.c:pw", "", "", false},
		{"nothing", "", "", "", false},
		{"scheme alone", "Basic", "", "", false},
		{"no space", "BasicYUBiLmM6cHc=", "", "", false},
		{"other scheme", "Bearer YUBiLmM6cHc=", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			login, password, ok := ParseBasic(test.header)
			if login != test.login || password != test.password || ok != test.ok {
				t.Errorf("ParseBasic(%q) = %q, %q, %v; want %q, %q, %v", test.header, login, password, ok, test.login, test.password, test.ok)
			}
		})
	}
}
