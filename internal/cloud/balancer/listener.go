package balancer

import (
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Listener is a port of a load balancer and where it forwards what it receives
// there.
type Listener struct {
	BackendPort          int      // The port of the backends, from 1 to 65535.
	BackendProtocol      Protocol // The protocol to the backends: `HTTP`, `HTTPS`, `TCP`, `SSL` or `UDP`.
	LoadBalancerPort     int      // The port of the load balancer, from 1 to 65535.
	LoadBalancerProtocol Protocol // The protocol to the load balancer: `HTTP`, `HTTPS`, `TCP`, `SSL` or `UDP`.
	PolicyNames          []string `wire:"omitempty"`          // The names of the policies that are enabled for the listener.
	ServerCertificateId  string   `json:"-" wire:"omitempty"` // The OUTSCALE Resource Name (ORN) of the server certificate.

	// ListenerId is the number that listener rules show.
	ListenerId int `wire:"-"`
	// CertificateId is the server certificate, whose ORN may change.
	CertificateId id.ServerCertificate `wire:"-"`
}

// Protocol is a protocol that a load balancer speaks.
type Protocol string

// The protocols.
const (
	HTTP  Protocol = "HTTP"
	HTTPS Protocol = "HTTPS"
	TCP   Protocol = "TCP"
	SSL   Protocol = "SSL"
	UDP   Protocol = "UDP"
)

// Literals implements [api.Enum].
func (Protocol) Literals() []string { return []string{"HTTP", "HTTPS", "TCP", "SSL", "UDP"} }

// Check reports a text that is no protocol.
func (p Protocol) Check() error {
	if !slices.Contains(p.Literals(), string(p)) {
		return apierror.InvalidListener.Errorf("'%.100s' is none of %s.", string(p), strings.Join(p.Literals(), ", "))
	}
	return nil
}

// carriesHttp reports whether single HTTP requests can be recognised.
func (p Protocol) carriesHttp() bool { return p == HTTP || p == HTTPS }

// isSealed reports whether clients are shown a certificate.
func (p Protocol) isSealed() bool { return p == HTTPS || p == SSL }

// goesWith reports whether what is received by a protocol can be forwarded by
// another one: requests of HTTP as such, connections as such, and packets as such.
func (p Protocol) goesWith(backend Protocol) bool {
	return p.carriesHttp() == backend.carriesHttp() && (p == UDP) == (backend == UDP)
}

// BalancerPort is a port of a load balancer.
type BalancerPort int

// BackendPort is a port of backends.
type BackendPort int

const lowestPort, highestPort = 1, 65535

// Bounds implements [api.Bounded].
func (BalancerPort) Bounds() (low, high int64) { return lowestPort, highestPort }

// Bounds implements [api.Bounded].
func (BackendPort) Bounds() (low, high int64) { return lowestPort, highestPort }

// Check reports a number that is no port.
func (p BalancerPort) Check() error { return checkPort(int(p), apierror.InvalidBalancerPort) }

// Check reports a number that is no port.
func (p BackendPort) Check() error { return checkPort(int(p), apierror.InvalidListener) }

func checkPort(port int, code apierror.Code) error {
	if port < lowestPort || port > highestPort {
		return code.Errorf("%d is not a port from %d to %d.", port, lowestPort, highestPort)
	}
	return nil
}

func listenerActions() []api.Action {
	return []api.Action{
		api.Do("Listener", createLoadBalancerListeners),
		api.Do("Listener", deleteLoadBalancerListeners),
	}
}

// listenerQuota counts the listeners of a load balancer.
const listenerQuota = "lb_listeners_limit"

// ListenerForCreation is a listener in the making.
type ListenerForCreation struct {
	// The port of the backends, from 1 to 65535.
	BackendPort BackendPort `api:"required"`
	// The protocol to the backends, by default the protocol of the listener: `HTTP` or `HTTPS` behind
	// these, `TCP` or `SSL` behind these, `UDP` behind `UDP`.
	BackendProtocol Protocol
	// The port of the load balancer, from 1 to 65535, which no other listener of it has.
	LoadBalancerPort BalancerPort `api:"required"`
	// The protocol to the load balancer: `HTTP`, `HTTPS`, `TCP`, `SSL` or `UDP`.
	LoadBalancerProtocol Protocol `api:"required"`
	// The OUTSCALE Resource Name (ORN) of a server certificate. It is required for `HTTPS` and `SSL`, and
	// for these only.
	ServerCertificateId string
}

// listen adds listeners to a load balancer, which the caller writes.
func (lb *LoadBalancer) listen(tx *resource.Tx, wanted []ListenerForCreation) error {
	listeners := slices.Clone(lb.Listeners)
	for i, w := range wanted {
		l := Listener{
			BackendPort: int(w.BackendPort), BackendProtocol: w.BackendProtocol,
			LoadBalancerPort: int(w.LoadBalancerPort), LoadBalancerProtocol: w.LoadBalancerProtocol,
		}
		if l.BackendProtocol == "" {
			l.BackendProtocol = l.LoadBalancerProtocol
		}
		if !l.LoadBalancerProtocol.goesWith(l.BackendProtocol) {
			return apierror.InvalidListener.Errorf("Listeners.%d: what is received by %s cannot be forwarded by %s.",
				i, l.LoadBalancerProtocol, l.BackendProtocol)
		}
		if at(listeners, l.LoadBalancerPort) >= 0 {
			return apierror.ListenerExists.Errorf(
				"The load balancer %s has a listener on the port %d already.", lb.LoadBalancerName, l.LoadBalancerPort)
		}
		if err := l.prove(tx, w.ServerCertificateId); err != nil {
			return err
		}
		l.ListenerId = newNumber(tx, func(n int) bool {
			return slices.ContainsFunc(listeners, func(other Listener) bool { return other.ListenerId == n })
		})
		listeners = append(listeners, l)
	}
	lb.Listeners = listeners
	return tx.CheckLimit(listenerQuota, apierror.TooManyListeners, len(listeners))
}

// prove gives a listener the server certificate that clients are shown, if its
// protocol has one.
func (l *Listener) prove(tx *resource.Tx, orn string) error {
	switch sealed := l.LoadBalancerProtocol.isSealed(); {
	case sealed && orn == "":
		return apierror.MissingParameter.Errorf(
			"ServerCertificateId is required for the listener of %s on the port %d.", l.LoadBalancerProtocol, l.LoadBalancerPort)
	case !sealed && orn != "":
		return apierror.InvalidListener.Errorf("ServerCertificateId is for listeners of HTTPS and SSL, and that on the port %d is of %s.",
			l.LoadBalancerPort, l.LoadBalancerProtocol)
	case !sealed:
		return nil
	}
	certificate, err := iam.ServerCertificateByORN(tx, orn)
	if err != nil {
		return err
	}
	l.CertificateId = certificate.Id
	return nil
}

// newNumber chooses a number that is not in use.
func newNumber(tx *resource.Tx, used func(n int) bool) int {
	for {
		n := 0
		for _, digit := range resource.Random(tx.Rand(), 9, resource.Decimal) {
			n = 10*n + int(digit-'0')
		}
		if n > 0 && !used(n) {
			return n
		}
	}
}

// at is the place of the listener on a port; -1: there is none.
func at(listeners []Listener, port int) int {
	return slices.IndexFunc(listeners, func(l Listener) bool { return l.LoadBalancerPort == port })
}

// listenerAt finds the listener on a port. What it returns is a copy.
func (lb *LoadBalancer) listenerAt(port int) (Listener, error) {
	if i := at(lb.Listeners, port); i >= 0 {
		return lb.Listeners[i], nil
	}
	return Listener{}, apierror.ListenerNotFound.Errorf("The load balancer %s has no listener on the port %d.", lb.LoadBalancerName, port)
}

// setListener puts a listener in place of the one on its port.
func (lb *LoadBalancer) setListener(l Listener) {
	lb.Listeners = slices.Clone(lb.Listeners)
	lb.Listeners[at(lb.Listeners, l.LoadBalancerPort)] = l
}

// shownListeners are listeners with the ORNs of their certificates.
func shownListeners(tx *resource.Tx, listeners []Listener) []Listener {
	listeners = slices.Clone(listeners)
	for i := range listeners {
		if c := iam.ServerCertificates.Find(tx, listeners[i].CertificateId); c != nil {
			listeners[i].ServerCertificateId = c.ORN(tx)
		}
	}
	return listeners
}

// CreateLoadBalancerListenersRequest adds listeners to a load balancer.
type CreateLoadBalancerListenersRequest struct {
	Listeners        []ListenerForCreation `api:"required"` // One or more listeners, on ports where the load balancer has none.
	LoadBalancerName id.LoadBalancer       `api:"required"` // The name of the load balancer.
}

func createLoadBalancerListeners(tx *resource.Tx, req *CreateLoadBalancerListenersRequest) (*LoadBalancerResponse, error) {
	lb, err := changing(tx, req.LoadBalancerName, balancerChanged)
	if err != nil {
		return nil, err
	}
	if len(req.Listeners) == 0 {
		return nil, apierror.MissingParameter.Errorf("Listeners is empty: give at least one listener.")
	}
	if err := lb.listen(tx, req.Listeners); err != nil {
		return nil, err
	}
	if err := lb.save(tx, balancerChanged); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}

// DeleteLoadBalancerListenersRequest removes listeners from a load balancer, with
// their rules.
type DeleteLoadBalancerListenersRequest struct {
	LoadBalancerName  id.LoadBalancer `api:"required"` // The name of the load balancer.
	LoadBalancerPorts []BalancerPort  `api:"required"` // One or more ports of listeners.
}

func deleteLoadBalancerListeners(tx *resource.Tx, req *DeleteLoadBalancerListenersRequest) (*LoadBalancerResponse, error) {
	lb, err := changing(tx, req.LoadBalancerName, balancerChanged)
	if err != nil {
		return nil, err
	}
	if len(req.LoadBalancerPorts) == 0 {
		return nil, apierror.MissingParameter.Errorf("LoadBalancerPorts is empty: name the ports of the listeners to delete.")
	}
	gone := map[int]bool{}
	for _, port := range req.LoadBalancerPorts {
		if _, err := lb.listenerAt(int(port)); err != nil {
			return nil, err
		}
		gone[int(port)] = true
	}
	for rule := range ListenerRules.Of(tx, lb.LoadBalancerName) {
		if !gone[rule.LoadBalancerPort] {
			continue
		}
		if err := ListenerRules.Delete(tx, rule); err != nil {
			return nil, err
		}
	}
	lb.Listeners = slices.DeleteFunc(slices.Clone(lb.Listeners), func(l Listener) bool { return gone[l.LoadBalancerPort] })
	if err := lb.save(tx, balancerChanged); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}
