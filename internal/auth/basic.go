package auth

import (
	"encoding/base64"
	"strings"
)

// ParseBasic reads an Authorization header of the Basic scheme. Both base64
// alphabets are read, with and without padding: osc-cli writes the URL-safe
// one, which net/http refuses.
func ParseBasic(header string) (login, password string, ok bool) {
	scheme, encoded, _ := strings.Cut(strings.TrimSpace(header), " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	encoded = strings.TrimRight(strings.TrimLeft(encoded, " "), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(encoded, "-_") {
		encoding = base64.RawURLEncoding
	}
	plain, err := encoding.DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	login, password, ok = strings.Cut(string(plain), ":")
	if !ok {
		return "", "", false
	}
	return login, password, true
}
