package balance

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// config is all that the load balancer goes by at a time. It never changes.
type config struct {
	value        driver.Balancer
	reach        Reach
	certificates map[string]*tls.Certificate
	listeners    map[port]*listener
	backends     []*backend
}

// listener is a listener, and where what it receives goes.
type listener struct {
	driver.Listener
	secured bool        // stickiness cookies have the attribute Secure
	tls     *tls.Config // nil: clients speak in clear
	all     *pool
	rules   []rule              // in the order in which they count
	sticky  map[string]*backend // the healthy ones, by the values of stickiness cookies
}

func (l *listener) isHTTP() bool { return l.Protocol == "HTTP" || l.Protocol == "HTTPS" }

// pool is backends that take turns.
type pool struct {
	healthy []*backend
	turn    *atomic.Uint64 // shared by all pools of the same turnKey
}

// next returns the backend whose turn it is, save those that were tried; nil: there
// is none.
func (p *pool) next(tried []*backend) *backend {
	turn := p.turn.Add(1)
	for i := range p.healthy {
		be := p.healthy[(turn+uint64(i))%uint64(len(p.healthy))]
		if !slices.Contains(tried, be) {
			return be
		}
	}
	return nil
}

// turnKey names what shares the turns of backends: a listener, or a rule of it.
type turnKey struct {
	at   port
	rule string
}

// Check refuses a value that no load balancer can go by, with [driver.Never].
func Check(v driver.Balancer) error {
	_, err := parseCertificates(v)
	return err
}

// parseCertificates reads the certificates of a value, by their IDs.
func parseCertificates(v driver.Balancer) (map[string]*tls.Certificate, error) {
	certificates := map[string]*tls.Certificate{}
	for _, c := range v.Certificates {
		pair, err := tls.X509KeyPair(c.Chain, c.PrivateKey)
		if err != nil {
			return nil, driver.Never{Why: fmt.Sprintf("The certificate %s cannot be used: %s.", c.ID, err)}
		}
		certificates[c.ID] = &pair
	}
	for _, l := range v.Listeners {
		if isTLS(l.Protocol) && certificates[l.Certificate] == nil {
			return nil, driver.Never{Why: fmt.Sprintf("The listener at port %d has no certificate.", l.Port)}
		}
	}
	return certificates, nil
}

func isTLS(protocol string) bool { return protocol == "HTTPS" || protocol == "SSL" }

// compile makes of a value what the load balancer goes by, with the health that its
// backends have now. The caller holds the mutex.
func (b *Balancer) compile(v driver.Balancer, reach Reach, certificates map[string]*tls.Certificate) *config {
	c := &config{value: v, reach: reach, certificates: certificates, listeners: map[port]*listener{}}
	byID := map[string]*backend{}
	var healthy []*backend
	for _, named := range v.Backends {
		be := b.backends[keyOf(named)]
		c.backends = append(c.backends, be)
		if be.healthy() {
			healthy = append(healthy, be)
			byID[named.ID] = be
		}
	}
	turns := map[turnKey]*atomic.Uint64{}
	turn := func(at port, rule string) *atomic.Uint64 {
		key := turnKey{at, rule}
		if turns[key] = b.turns[key]; turns[key] == nil {
			turns[key] = new(atomic.Uint64)
		}
		return turns[key]
	}
	for _, l := range v.Listeners {
		at := portOf(l)
		compiled := &listener{Listener: l, secured: v.SecuredCookies, all: &pool{healthy, turn(at, "")}}
		if isTLS(l.Protocol) {
			compiled.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificates[l.Certificate]}}
		}
		if l.Protocol == "HTTPS" {
			compiled.tls.NextProtos = []string{"h2", "http/1.1"}
		}
		if l.Stickiness != nil {
			compiled.sticky = map[string]*backend{}
			for _, be := range healthy {
				compiled.sticky[be.cookie] = be
			}
		}
		for _, r := range l.Rules {
			p := &pool{turn: turn(at, r.ID)}
			for _, id := range r.Backends {
				if be := byID[id]; be != nil {
					p.healthy = append(p.healthy, be)
				}
			}
			compiled.rules = append(compiled.rules, rule{r, p})
		}
		slices.SortFunc(compiled.rules, func(x, y rule) int { return cmp.Compare(y.Priority, x.Priority) })
		c.listeners[at] = compiled
	}
	b.turns = turns
	return c
}

// cookieOf is the value of stickiness cookies of a backend. It is the same after a
// restart, and says nothing of where the backend is.
func cookieOf(account, balancer, backend string) string {
	sum := sha256.Sum256([]byte(account + "\x00" + balancer + "\x00" + backend))
	return hex.EncodeToString(sum[:16])
}
