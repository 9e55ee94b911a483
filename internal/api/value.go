package api

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Tag is a tag of a resource.
type Tag = resource.ResourceTag

// Checker is a value that validates itself. The api package checks every such
// value of a request once it is decoded.
type Checker interface{ Check() error }

// Enum is a text with a fixed set of values.
type Enum interface{ Literals() []string }

// Bounded is a number between two others, both included.
type Bounded interface{ Bounds() (low, high int64) }

// Versioned is a text that older versions of the API spell differently.
type Versioned interface{ At(Version) string }

// textual is a value that is a text on the wire and something else in Go.
type textual interface {
	AppendWire([]byte) []byte
	IsZero() bool
}

// parser is the other direction of textual.
type parser interface{ ParseWire(string) error }

// DateTime is a time in milliseconds since 1970. It is shown as
// 2026-11-20T10:04:05.000Z; zero is no time and is not shown.
type DateTime int64

// OffsetDateTime is a time in milliseconds since 1970 that the contract shows
// as 2026-11-20T10:04:05.000+0000; zero is no time and is not shown.
type OffsetDateTime int64

// At is the time as the API keeps it.
func At(t time.Time) DateTime { return DateTime(t.UnixMilli()) }

// OffsetAt is the time as the API keeps it.
func OffsetAt(t time.Time) OffsetDateTime { return OffsetDateTime(t.UnixMilli()) }

// Time is the time in UTC.
func (d DateTime) Time() time.Time { return time.UnixMilli(int64(d)).UTC() }

// Time is the time in UTC.
func (d OffsetDateTime) Time() time.Time { return time.UnixMilli(int64(d)).UTC() }

// IsZero reports that there is no time.
func (d DateTime) IsZero() bool { return d == 0 }

// IsZero reports that there is no time.
func (d OffsetDateTime) IsZero() bool { return d == 0 }

// AppendWire appends the time as the wire shows it.
func (d DateTime) AppendWire(b []byte) []byte { return appendTime(b, d.Time(), "Z") }

// AppendWire appends the time as the wire shows it.
func (d OffsetDateTime) AppendWire(b []byte) []byte { return appendTime(b, d.Time(), "+0000") }

// appendTime appends a time in UTC with milliseconds. It leaves most to the one
// layout that the time package need not read anew each time.
func appendTime(b []byte, t time.Time, zone string) []byte {
	b = t.AppendFormat(b, time.RFC3339)
	b = b[:len(b)-len("Z")]
	ms := t.Nanosecond() / 1e6
	b = append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
	return append(b, zone...)
}

// ParseWire reads an ISO 8601 date, or date and time with a zone.
func (d *DateTime) ParseWire(s string) error {
	t, err := ParseTime(s)
	*d = At(t)
	return err
}

// ParseWire reads an ISO 8601 date, or date and time with a zone.
func (d *OffsetDateTime) ParseWire(s string) error {
	t, err := ParseTime(s)
	*d = OffsetAt(t)
	return err
}

// layouts are the forms of dates that clients send. A date means its midnight
// in UTC; a time without a zone is taken as UTC.
var layouts = []string{
	"2006-01-02", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700", "20060102T150405Z0700", "20060102",
}

// ParseTime reads an ISO 8601 date, or date and time. Fractions of a second
// are cut to milliseconds.
func ParseTime(s string) (time.Time, error) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 0 && t.Year() < 10000 {
			return t.UTC().Truncate(time.Millisecond), nil
		}
	}
	return time.Time{}, apierror.InvalidValue.Errorf("'%s' is not a date (2026-11-20) or a date and time (2026-11-20T10:04:05.000Z).", s)
}

// CIDR is a range of IPv4 addresses, such as 10.0.0.0/16.
type CIDR string

// Check reports a text that is no IPv4 range in canonical form: without leading
// zeros and with no bits set after the prefix.
func (r CIDR) Check() error {
	p, err := netip.ParsePrefix(string(r))
	if err != nil || !p.Addr().Is4() {
		return apierror.InvalidBlock.Errorf("'%s' is not an IPv4 range in CIDR notation, such as 10.0.0.0/16.", r)
	}
	if p.Masked() != p {
		return apierror.InvalidBlock.Errorf("'%s' has bits set after its prefix: the range is %s.", r, p.Masked())
	}
	return nil
}

// Prefix is the range as addresses. It is zero if Check fails.
func (r CIDR) Prefix() netip.Prefix {
	p, _ := netip.ParsePrefix(string(r))
	return p
}

// IPRange is an address or a range of addresses, IPv4 or IPv6.
type IPRange string

// Check reports a text that is neither an address nor a range.
func (r IPRange) Check() error {
	if _, err := r.parse(); err != nil {
		return apierror.InvalidBlock.Errorf("'%s' is neither an IP address nor a range in CIDR notation.", r)
	}
	return nil
}

func (r IPRange) parse() (netip.Prefix, error) {
	if !strings.Contains(string(r), "/") {
		a, err := netip.ParseAddr(string(r))
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("not an address")
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(string(r))
}

// Prefix is the range as addresses; a single address is a range of one. It is
// zero if Check fails.
func (r IPRange) Prefix() netip.Prefix {
	p, _ := r.parse()
	return p.Masked()
}

// IPv4 is an IPv4 address.
type IPv4 string

// Check reports a text that is no IPv4 address.
func (a IPv4) Check() error {
	if ip, err := netip.ParseAddr(string(a)); err != nil || !ip.Is4() {
		return apierror.InvalidIP.Errorf("'%s' is not an IPv4 address.", a)
	}
	return nil
}
