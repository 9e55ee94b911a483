package api

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2028-02-18":                    "2028-02-18T00:00:00Z",
		"20280218":                      "2028-02-18T00:00:00Z",
		"2028-02-20T10:04:05Z":          "2028-02-20T10:04:05Z",
		"2028-02-20T10:04:05":           "2028-02-20T10:04:05Z",
		"2028-02-20T10:04:05.000+0000":  "2028-02-20T10:04:05Z",
		"2028-02-20T10:04:05.678+01:30": "2028-02-20T08:34:05.678Z",
		"2028-02-20T10:04:05.6789-0100": "2028-02-20T11:04:05.678Z",
		"2028-02-20T10:04Z":             "2028-02-20T10:04:00Z",
		"2028-02-20T10:04+0200":         "2028-02-20T08:04:00Z",
		"20280220T100405Z":              "2028-02-20T10:04:05Z",
		"1969-12-31T23:59:59.999Z":      "1969-12-31T23:59:59.999Z",
	} {
		got, err := ParseTime(text)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s is %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "now", "2028", "2028-02-30", "2028-13-01", "2028-02-20 10:04:05", "2028-02-20T24:00:00Z", "10000-01-01", "0000-01-01",
		"2028-02-20T10:04:05Zulu", "2028-02-20T10:04:05.Z", "1795169045",
	} {
		if got, err := ParseTime(text); !apierror.InvalidValue.Is(err) {
			t.Errorf("%q is taken for %v, %v", text, got, err)
		}
	}
}

func TestTimesSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// The years 1 to 9999.
		ms := rapid.Int64Range(-62_135_596_800_000, 253_402_300_799_999).Draw(t, "ms")
		var plain DateTime
		if err := plain.ParseWire(string(DateTime(ms).AppendWire(nil))); err != nil || plain != DateTime(ms) {
			t.Fatalf("%d becomes %d, %v", ms, plain, err)
		}
		var offset OffsetDateTime
		if err := offset.ParseWire(string(OffsetDateTime(ms).AppendWire(nil))); err != nil || offset != OffsetDateTime(ms) {
			t.Fatalf("%d becomes %d, %v", ms, offset, err)
		}
		if want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000-0700"); string(OffsetDateTime(ms).AppendWire(nil)) != want {
			t.Fatalf("%d is written as %s, want %s", ms, OffsetDateTime(ms).AppendWire(nil), want)
		}
		if !plain.Time().Equal(offset.Time()) || At(plain.Time()) != plain || OffsetAt(offset.Time()) != offset {
			t.Fatalf("%d is the time %v or %v", ms, plain.Time(), offset.Time())
		}
	})
	if !DateTime(0).IsZero() || !OffsetDateTime(0).IsZero() || DateTime(1).IsZero() || OffsetDateTime(-1).IsZero() {
		t.Error("only 0 is no time")
	}
}

func TestCIDR(t *testing.T) {
	t.Parallel()
	for _, r := range []CIDR{"10.0.0.0/16", "0.0.0.0/0", "192.0.2.7/32"} {
		if err := r.Check(); err != nil || r.Prefix() != netip.MustParsePrefix(string(r)) {
			t.Errorf("%s: %v, %v", r, r.Prefix(), err)
		}
	}
	for _, r := range []CIDR{"", "10.0.0.0", "10.0.0.0/33", "10.0.0.1/16", "010.0.0.0/16", "10.0.0.0/016", "10.0/16", "2001:db8::/32",
		"::ffff:10.0.0.0/104", "10.0.0.0/16 "} {
		if err := r.Check(); !apierror.InvalidBlock.Is(err) {
			t.Errorf("%q: %v, want code 4013", r, err)
		}
	}
	if CIDR("nowhere").Prefix().IsValid() {
		t.Error("what is no range has addresses")
	}
}

func TestIPRange(t *testing.T) {
	t.Parallel()
	for r, want := range map[IPRange]string{
		"192.0.2.7": "192.0.2.7/32", "10.1.2.3/8": "10.0.0.0/8", "2001:db8::1": "2001:db8::1/128", "2001:db8::/32": "2001:db8::/32",
	} {
		if err := r.Check(); err != nil || r.Prefix() != netip.MustParsePrefix(want) {
			t.Errorf("%s: %v, %v, want %s", r, r.Prefix(), err, want)
		}
	}
	for _, r := range []IPRange{"", "10.0.0.256", "10.0.0.0/33", "fe80::1%eth0", "localhost", "10.0.0.0/"} {
		if err := r.Check(); !apierror.InvalidBlock.Is(err) {
			t.Errorf("%q: %v, want code 4013", r, err)
		}
	}
}

func TestIPv4(t *testing.T) {
	t.Parallel()
	if err := IPv4("192.0.2.7").Check(); err != nil {
		t.Error(err)
	}
	for _, a := range []IPv4{"", "192.0.2", "192.0.2.256", "192.0.02.7", "2001:db8::1", "::ffff:192.0.2.7", "192.0.2.7/32"} {
		if err := a.Check(); !apierror.InvalidIP.Is(err) {
			t.Errorf("%q: %v, want code 4133", a, err)
		}
	}
}
