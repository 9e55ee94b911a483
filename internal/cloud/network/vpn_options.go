package network

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VpnOptions is how the two ends of a VPN connection find and trust each other.
// A connection has a value for each option. A change says some of them: 0, an
// empty text and an empty list change nothing.
type VpnOptions struct {
	// The first phase of the key exchange (IKE), in which the ends get to trust each other.
	Phase1Options *Phase1Options
	// The second phase of the key exchange, in which they agree on how to encrypt what goes
	// through the tunnel.
	Phase2Options *Phase2Options
	// The range of the addresses of both ends inside the tunnel: a /30 of 169.254.254.0/24. The
	// first usable one is ours, the second the client's.
	TunnelInsideIpRange InsideRange
}

// Phase1Options is the first phase of the key exchange of a VPN connection.
type Phase1Options struct {
	// What our end does when the other one seems dead: `clear` (end the tunnel), `none`
	// (nothing) or `restart` (begin again).
	DpdTimeoutAction string
	// After how many seconds without an answer the other end seems dead, between 30 and 28800.
	DpdTimeoutSeconds    int
	IkeVersions          []string // The versions of IKE that may be used: `ikev1`, `ikev2`.
	Phase1DhGroupNumbers []int    // The Diffie-Hellman groups that may be used: 2, 14 to 24.
	// The encryptions that may be used: `AES128`, `AES256`, `AES128-GCM-16`, `AES256-GCM-16`.
	Phase1EncryptionAlgorithms []string
	// The hashes that may be used: `SHA1`, `SHA2-256`, `SHA2-384`, `SHA2-512`.
	Phase1IntegrityAlgorithms []string
	// For how many seconds the ends trust each other, between 900 and 28800.
	Phase1LifetimeSeconds int
	// How many packets may come out of order, between 64 and 2048.
	ReplayWindowSize int
	// Whether our end waits for the client's (`add`) or begins (`start`).
	StartupAction string
}

// Phase2Options is the second phase of the key exchange of a VPN connection.
type Phase2Options struct {
	// The Diffie-Hellman groups that may be used: 2, 5, 14 to 24.
	Phase2DhGroupNumbers []int
	// The encryptions that may be used: `AES128`, `AES256`, `AES128-GCM-16`, `AES256-GCM-16`.
	Phase2EncryptionAlgorithms []string
	// The hashes that may be used: `SHA1`, `SHA2-256`, `SHA2-384`, `SHA2-512`.
	Phase2IntegrityAlgorithms []string
	// For how many seconds a key encrypts, between 900 and 3600, and less than the first phase
	// lasts.
	Phase2LifetimeSeconds int
	// The key by which the ends know each other. It has no line breaks and no double quotes.
	PreSharedKey resource.Secret
}

// What the options may be, all of which a new connection may use. These are
// AWS's: the published description names the options without their values.
var (
	ikeVersions    = []string{"ikev1", "ikev2"}
	encryptions    = []string{"AES128", "AES256", "AES128-GCM-16", "AES256-GCM-16"}
	integrities    = []string{"SHA1", "SHA2-256", "SHA2-384", "SHA2-512"}
	phase1DhGroups = []int{2, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}
	phase2DhGroups = []int{2, 5, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}
	dpdActions     = []string{"clear", "none", "restart"}
	startUps       = []string{"add", "start"}
)

// The bounds of the options that are numbers.
const (
	leastDpdTimeout                            = 30  // seconds
	leastLifetime                              = 900 // seconds
	longestPhase1, longestPhase2               = 28_800, 3_600
	smallestReplay, usualReplay, largestReplay = 64, 1_024, 2_048 // packets
	longestKey                                 = 255              // characters
)

// defaultVpnOptions are those of a new connection.
func defaultVpnOptions(inside InsideRange, key resource.Secret) VpnOptions {
	return VpnOptions{
		Phase1Options: &Phase1Options{
			DpdTimeoutAction:           dpdActions[0],
			DpdTimeoutSeconds:          leastDpdTimeout,
			IkeVersions:                ikeVersions,
			Phase1DhGroupNumbers:       phase1DhGroups,
			Phase1EncryptionAlgorithms: encryptions,
			Phase1IntegrityAlgorithms:  integrities,
			Phase1LifetimeSeconds:      longestPhase1,
			ReplayWindowSize:           usualReplay,
			StartupAction:              startUps[0],
		},
		Phase2Options: &Phase2Options{
			Phase2DhGroupNumbers:       phase2DhGroups,
			Phase2EncryptionAlgorithms: encryptions,
			Phase2IntegrityAlgorithms:  integrities,
			Phase2LifetimeSeconds:      longestPhase2,
			PreSharedKey:               key,
		},
		TunnelInsideIpRange: inside,
	}
}

// newPreSharedKey is a key that nobody guesses.
func newPreSharedKey(tx *resource.Tx) resource.Secret {
	return resource.Secret(resource.Random(tx.Rand(), 32, letters))
}

// Check reports an option that has a value it cannot have.
func (o Phase1Options) Check() error {
	return cmp.Or(
		oneOf("DpdTimeoutAction", dpdActions, o.DpdTimeoutAction),
		between("DpdTimeoutSeconds", o.DpdTimeoutSeconds, leastDpdTimeout, longestPhase1),
		oneOf("IkeVersions", ikeVersions, o.IkeVersions...),
		oneOf("Phase1DhGroupNumbers", phase1DhGroups, o.Phase1DhGroupNumbers...),
		oneOf("Phase1EncryptionAlgorithms", encryptions, o.Phase1EncryptionAlgorithms...),
		oneOf("Phase1IntegrityAlgorithms", integrities, o.Phase1IntegrityAlgorithms...),
		between("Phase1LifetimeSeconds", o.Phase1LifetimeSeconds, leastLifetime, longestPhase1),
		between("ReplayWindowSize", o.ReplayWindowSize, smallestReplay, largestReplay),
		oneOf("StartupAction", startUps, o.StartupAction),
	)
}

// Check reports an option that has a value it cannot have.
func (o Phase2Options) Check() error {
	return cmp.Or(
		oneOf("Phase2DhGroupNumbers", phase2DhGroups, o.Phase2DhGroupNumbers...),
		oneOf("Phase2EncryptionAlgorithms", encryptions, o.Phase2EncryptionAlgorithms...),
		oneOf("Phase2IntegrityAlgorithms", integrities, o.Phase2IntegrityAlgorithms...),
		between("Phase2LifetimeSeconds", o.Phase2LifetimeSeconds, leastLifetime, longestPhase2),
		checkKey(string(o.PreSharedKey)),
	)
}

// oneOf reports a value that is none of those allowed. The zero value is none
// given.
func oneOf[T comparable](option string, allowed []T, values ...T) error {
	var none T
	for _, v := range values {
		if v != none && !slices.Contains(allowed, v) {
			return apierror.InvalidValue.Errorf("%s: '%v' is not one of %v.", option, v, allowed)
		}
	}
	return nil
}

// between reports a number out of bounds. 0 is none given.
func between(option string, n, low, high int) error {
	if n != 0 && (n < low || n > high) {
		return apierror.InvalidValue.Errorf("%s: %d is not between %d and %d.", option, n, low, high)
	}
	return nil
}

// checkKey reports a key that the configuration of no client could hold. It
// does not repeat it.
func checkKey(key string) error {
	if utf8.RuneCountInString(key) > longestKey {
		return apierror.InvalidLength.Errorf("PreSharedKey is longer than %d characters.", longestKey)
	}
	if strings.Contains(key, `"`) || strings.ContainsFunc(key, isUnwritable) {
		return apierror.InvalidValue.Errorf("PreSharedKey: a key has no line breaks, no other control characters and no double quotes.")
	}
	return nil
}

// isUnwritable reports what has no place in an XML document, or ends a line.
func isUnwritable(r rune) bool {
	return unicode.IsControl(r) || slices.Contains([]rune{'\u2028', '\u2029', '\ufffd', '\ufffe', '\uffff'}, r)
}

// InsideRange is the range of the addresses of both ends inside of a tunnel. As
// in the published examples, it may be written with any of its addresses.
type InsideRange string

// insides is where such ranges are taken from.
var insides = netip.MustParsePrefix("169.254.254.0/24")

// insideBits is how long the prefix of one is: it has two usable addresses.
const insideBits = 30

// Check reports a text that is no such range.
func (r InsideRange) Check() error {
	if r == "" {
		return nil
	}
	p, err := netip.ParsePrefix(string(r))
	switch {
	case err != nil || !p.Addr().Is4():
		return apierror.InvalidBlock.Errorf("'%s' is not an IPv4 range in CIDR notation, such as 169.254.254.20/30.", r)
	case p.Bits() != insideBits:
		return apierror.InvalidRangeSize.Errorf("'%s' is not a /%d.", r, insideBits)
	case !insides.Contains(p.Addr()):
		return apierror.InvalidValue.Errorf("'%s' is not inside %s.", r, insides)
	}
	return nil
}

// Prefix is the range as addresses.
func (r InsideRange) Prefix() netip.Prefix { return netip.MustParsePrefix(string(r)).Masked() }

// chooseInside finds a range that no connection of a virtual gateway has.
func chooseInside(tx *resource.Tx, gateway id.VirtualGateway) (InsideRange, error) {
	var free []netip.Prefix
	for at := 0; at < sizeOf(insides); at += 1 << (32 - insideBits) {
		free = append(free, netip.PrefixFrom(nth(insides, at), insideBits))
	}
	for c := range VpnConnections.Of(tx, gateway) {
		free = slices.DeleteFunc(free, func(p netip.Prefix) bool { return p == c.VpnOptions.TunnelInsideIpRange.Prefix() })
	}
	if len(free) == 0 {
		return "", apierror.InsufficientCapacity.Errorf("All ranges of %s are used by VPN connections of %s.", insides, gateway)
	}
	return InsideRange(free[number(tx, len(free))].String()), nil
}

// with is the options with what a change says of them.
func (o VpnOptions) with(change *VpnOptions) VpnOptions {
	if c := change.Phase1Options; c != nil {
		old := o.Phase1Options
		o.Phase1Options = &Phase1Options{
			DpdTimeoutAction:           cmp.Or(c.DpdTimeoutAction, old.DpdTimeoutAction),
			DpdTimeoutSeconds:          cmp.Or(c.DpdTimeoutSeconds, old.DpdTimeoutSeconds),
			IkeVersions:                orList(c.IkeVersions, old.IkeVersions),
			Phase1DhGroupNumbers:       orList(c.Phase1DhGroupNumbers, old.Phase1DhGroupNumbers),
			Phase1EncryptionAlgorithms: orList(c.Phase1EncryptionAlgorithms, old.Phase1EncryptionAlgorithms),
			Phase1IntegrityAlgorithms:  orList(c.Phase1IntegrityAlgorithms, old.Phase1IntegrityAlgorithms),
			Phase1LifetimeSeconds:      cmp.Or(c.Phase1LifetimeSeconds, old.Phase1LifetimeSeconds),
			ReplayWindowSize:           cmp.Or(c.ReplayWindowSize, old.ReplayWindowSize),
			StartupAction:              cmp.Or(c.StartupAction, old.StartupAction),
		}
	}
	if c := change.Phase2Options; c != nil {
		old := o.Phase2Options
		o.Phase2Options = &Phase2Options{
			Phase2DhGroupNumbers:       orList(c.Phase2DhGroupNumbers, old.Phase2DhGroupNumbers),
			Phase2EncryptionAlgorithms: orList(c.Phase2EncryptionAlgorithms, old.Phase2EncryptionAlgorithms),
			Phase2IntegrityAlgorithms:  orList(c.Phase2IntegrityAlgorithms, old.Phase2IntegrityAlgorithms),
			Phase2LifetimeSeconds:      cmp.Or(c.Phase2LifetimeSeconds, old.Phase2LifetimeSeconds),
			PreSharedKey:               cmp.Or(c.PreSharedKey, old.PreSharedKey),
		}
	}
	o.TunnelInsideIpRange = cmp.Or(change.TunnelInsideIpRange, o.TunnelInsideIpRange)
	return o
}

// orList is a list, or another one if it is empty.
func orList[T comparable](list, other []T) []T {
	var none T
	if list = slices.DeleteFunc(slices.Clone(list), func(v T) bool { return v == none }); len(list) > 0 {
		return list
	}
	return other
}

// withoutSecret is the options with no key.
func (o VpnOptions) withoutSecret() VpnOptions {
	phase2 := *o.Phase2Options
	phase2.PreSharedKey = ""
	o.Phase2Options = &phase2
	return o
}

// checkOptions makes sure that the options go together, and with the other
// connections of the virtual gateway.
func (c *VpnConnection) checkOptions(tx *resource.Tx) error {
	first, second := c.VpnOptions.Phase1Options.Phase1LifetimeSeconds, c.VpnOptions.Phase2Options.Phase2LifetimeSeconds
	if second >= first {
		return apierror.InvalidParameter.Errorf("Phase2LifetimeSeconds, %d, is not less than Phase1LifetimeSeconds, %d.", second, first)
	}
	for other := range c.siblings(tx) {
		if inside := c.VpnOptions.TunnelInsideIpRange; inside.Prefix() == other.VpnOptions.TunnelInsideIpRange.Prefix() {
			return apierror.InvalidParameter.Errorf(
				"The TunnelInsideIpRange %s is used by %s, which has the same virtual gateway.", inside, other.VpnConnectionId)
		}
	}
	return nil
}
