package balancer

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ListenerRule forwards some of what a listener receives to some of the backends.
type ListenerRule struct {
	Action           RuleAction      // What the rule does: always `forward`.
	HostNamePattern  string          `wire:"omitempty"` // The pattern of the host names of the requests; absent: any.
	ListenerId       int             // The ID of the listener.
	ListenerRuleId   int             // The ID of the listener rule.
	ListenerRuleName id.ListenerRule // The name of the listener rule, unique in the account.
	PathPattern      string          `wire:"omitempty"` // The pattern of the paths of the requests; absent: any.
	Priority         Priority        // The priority of the rule: the matching rule of the listener with the greatest one counts.
	VmIds            []id.Vm         `ref:"weak"` // The IDs of the VMs that the requests are forwarded to.

	// LoadBalancerName and LoadBalancerPort say which listener it is.
	LoadBalancerName id.LoadBalancer `wire:"-"`
	LoadBalancerPort int             `wire:"-"`
}

// ListenerRules are the listener rules of the region. Their names identify them.
var ListenerRules = &resource.Kind[ListenerRule, id.ListenerRule]{
	Name:     "ListenerRule",
	NotFound: apierror.ListenerRuleNotFound,
	Quota:    &resource.Quota{Name: "lb_rules_limit", Code: apierror.TooManyListenerRules},
}

func listenerRuleActions() []api.Action {
	read := api.Read[ReadListenerRulesRequest](api.NewResource(ListenerRules, api.Plain[ListenerRule]))
	read.Family = "Listener"
	return []api.Action{
		api.Do("Listener", createListenerRule),
		read,
		api.Do("Listener", updateListenerRule),
		api.Command("Listener", deleteListenerRule),
	}
}

// RuleAction is what a rule does.
type RuleAction string

// Forward is what rules do.
const Forward RuleAction = "forward"

// Literals implements [api.Enum].
func (RuleAction) Literals() []string { return []string{"forward"} }

// Check reports a text that is no action.
func (a RuleAction) Check() error {
	if a != Forward {
		return apierror.InvalidRuleAction.Errorf("'%.100s' is not %s, which is what listener rules do.", string(a), Forward)
	}
	return nil
}

// RuleName is the name that a listener rule is given.
type RuleName string

const maxRuleName = 255

// Check reports a name that no listener rule can have.
func (n RuleName) Check() error {
	if length := utf8.RuneCountInString(string(n)); length == 0 || length > maxRuleName {
		return apierror.InvalidRuleName.Errorf("The name of a listener rule has from 1 to %d characters, and not %d.", maxRuleName, length)
	}
	if strings.ContainsFunc(string(n), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return apierror.InvalidRuleName.Errorf("The name %q has characters that cannot be printed.", string(n))
	}
	return nil
}

// Priority is the priority of a listener rule.
type Priority int

// Bounds implements [api.Bounded].
func (Priority) Bounds() (low, high int64) { return 1, 19999 }

// HostPattern is a pattern of host names; empty: any.
type HostPattern string

// PathPattern is a pattern of paths; empty: any.
type PathPattern string

const (
	maxPattern   = 128
	maxWildcards = 3
	wildcards    = "*?"
)

var (
	hostPatterns = regexp.MustCompile(`^[A-Za-z0-9.?*-]*$`)
	pathPatterns = regexp.MustCompile(`^[A-Za-z0-9_.$/~"'@:+?*-]*$`)
)

// Check reports a pattern that no listener rule can have.
func (p HostPattern) Check() error {
	return checkPattern(string(p), hostPatterns, "- . ?", apierror.InvalidHostPattern)
}

// Check reports a pattern that no listener rule can have.
func (p PathPattern) Check() error {
	return checkPattern(string(p), pathPatterns, `_ - . $ / ~ " ' @ : + ?`, apierror.InvalidPathPattern)
}

func checkPattern(text string, allowed *regexp.Regexp, special string, code apierror.Code) error {
	wild := 0
	for _, c := range text {
		if strings.ContainsRune(wildcards, c) {
			wild++
		}
	}
	switch {
	case utf8.RuneCountInString(text) > maxPattern:
		return code.Errorf("A pattern has at most %d characters, and not %d.", maxPattern, utf8.RuneCountInString(text))
	case !allowed.MatchString(text):
		return code.Errorf("'%s' has other characters than letters, digits, the wildcard * and any of %s.", text, special)
	case wild > maxWildcards:
		return code.Errorf("'%s' has %d wildcards (* and ?): a pattern has at most %d.", text, wild, maxWildcards)
	}
	return nil
}

// LoadBalancerLight names a listener.
type LoadBalancerLight struct {
	LoadBalancerName id.LoadBalancer `api:"required"` // The name of the load balancer.
	LoadBalancerPort BalancerPort    `api:"required"` // The port of the listener.
}

// ListenerRuleForCreation is a listener rule in the making.
type ListenerRuleForCreation struct {
	// What the rule does: always `forward`.
	Action RuleAction `default:"forward"`
	// A pattern of host names, of at most 128 letters, digits, `-` and `.`, in which `*` stands for any text
	// and `?` for any character, three of them at most. HostNamePattern or PathPattern is required.
	HostNamePattern HostPattern
	// Without effect: the ID is chosen by the region.
	ListenerRuleId string
	// A name that no other listener rule of the account has, of 1 to 255 characters.
	ListenerRuleName RuleName `api:"required"`
	// A pattern of paths, of at most 128 letters, digits and any of `_-.$/~"'@:+`, in which `*` stands for any
	// text and `?` for any character, three of them at most. HostNamePattern or PathPattern is required.
	PathPattern PathPattern
	// The priority of the rule, from 1 to 19999, which no other rule of the listener has.
	Priority Priority `api:"required"`
}

// CreateListenerRuleRequest makes a rule for a listener. Of the rules that match a
// request, the one with the greatest priority counts.
type CreateListenerRuleRequest struct {
	Listener     LoadBalancerLight       `api:"required"` // The listener.
	ListenerRule ListenerRuleForCreation `api:"required"` // The rule.
	// The IDs of the VMs to forward to. Those that are no backends of the load balancer get nothing.
	VmIds []id.Vm `api:"required"`
}

// ListenerRuleResponse shows a listener rule.
type ListenerRuleResponse struct {
	ListenerRule *ListenerRule // The listener rule.
}

func createListenerRule(tx *resource.Tx, req *CreateListenerRuleRequest) (*ListenerRuleResponse, error) {
	lb, err := changing(tx, req.Listener.LoadBalancerName, balancerChanged)
	if err != nil {
		return nil, err
	}
	l, err := lb.listenerAt(int(req.Listener.LoadBalancerPort))
	if err != nil {
		return nil, err
	}
	wanted := req.ListenerRule
	rule := &ListenerRule{
		Action: wanted.Action, HostNamePattern: string(wanted.HostNamePattern), PathPattern: string(wanted.PathPattern),
		ListenerRuleName: id.ListenerRule(wanted.ListenerRuleName), Priority: wanted.Priority, VmIds: once(req.VmIds),
		ListenerId: l.ListenerId, LoadBalancerName: lb.LoadBalancerName, LoadBalancerPort: l.LoadBalancerPort,
	}
	if err := rule.check(tx, lb); err != nil {
		return nil, err
	}
	rule.ListenerRuleId = newNumber(tx, func(n int) bool {
		for other := range ListenerRules.All(tx) {
			if other.ListenerRuleId == n {
				return true
			}
		}
		return false
	})
	if err := ListenerRules.Insert(tx, rule); err != nil {
		return nil, err
	}
	return &ListenerRuleResponse{rule}, lb.save(tx, balancerChanged)
}

// check refuses a rule that the load balancer cannot have, or that matches nothing
// in particular.
func (r *ListenerRule) check(tx *resource.Tx, lb *LoadBalancer) error {
	if err := r.checkPatterns(); err != nil {
		return err
	}
	if len(r.VmIds) == 0 {
		return apierror.MissingParameter.Errorf("VmIds is empty: name the VMs to forward to.")
	}
	if ListenerRules.Has(tx, r.ListenerRuleName) {
		return apierror.RuleNameTaken.Errorf("The ListenerRuleName '%s' is used already.", r.ListenerRuleName)
	}
	for other := range ListenerRules.Of(tx, lb.LoadBalancerName) {
		if other.LoadBalancerPort == r.LoadBalancerPort && other.Priority == r.Priority {
			return apierror.PriorityTaken.Errorf("The Priority %d is used by the listener rule '%s'.", r.Priority, other.ListenerRuleName)
		}
	}
	return lb.checkVms(tx, r.VmIds)
}

func (r *ListenerRule) checkPatterns() error {
	if r.HostNamePattern == "" && r.PathPattern == "" {
		return apierror.MissingParameter.Errorf("The listener rule '%s' needs a pattern of host names or of paths.", r.ListenerRuleName)
	}
	return nil
}

// ReadListenerRulesRequest asks for listener rules.
type ReadListenerRulesRequest struct {
	Filters *FiltersListenerRule // Which listener rules to list; all of them if absent.
}

// FiltersListenerRule selects listener rules.
type FiltersListenerRule struct {
	ListenerRuleNames []id.ListenerRule // The names of the listener rules.
}

// UpdateListenerRuleRequest changes the patterns of a listener rule. What is not
// given stays, and an empty pattern is taken away.
type UpdateListenerRuleRequest struct {
	// Another pattern of host names. See ListenerRuleForCreation.
	HostPattern *HostPattern
	// The name of the listener rule.
	ListenerRuleName id.ListenerRule `api:"required"`
	// Another pattern of paths. See ListenerRuleForCreation.
	PathPattern *PathPattern
}

func updateListenerRule(tx *resource.Tx, req *UpdateListenerRuleRequest) (*ListenerRuleResponse, error) {
	rule, lb, err := ruleNamed(tx, req.ListenerRuleName)
	if err != nil {
		return nil, err
	}
	if req.HostPattern != nil {
		rule.HostNamePattern = string(*req.HostPattern)
	}
	if req.PathPattern != nil {
		rule.PathPattern = string(*req.PathPattern)
	}
	if err := rule.checkPatterns(); err != nil {
		return nil, err
	}
	if err := ListenerRules.Put(tx, rule); err != nil {
		return nil, err
	}
	return &ListenerRuleResponse{rule}, lb.save(tx, balancerChanged)
}

// ruleNamed finds the listener rule of a name, and its load balancer.
func ruleNamed(tx *resource.Tx, name id.ListenerRule) (*ListenerRule, *LoadBalancer, error) {
	rule := ListenerRules.Find(tx, name)
	if rule == nil {
		return nil, nil, apierror.ListenerRuleNotFound.NotFound("ListenerRuleName", string(name))
	}
	lb, err := changing(tx, rule.LoadBalancerName, balancerChanged)
	return rule, lb, err
}

// DeleteListenerRuleRequest deletes a listener rule. Requests that it matched are
// forwarded by the other rules of the listener, or to all backends.
type DeleteListenerRuleRequest struct {
	ListenerRuleName id.ListenerRule `api:"required"` // The name of the listener rule.
}

func deleteListenerRule(tx *resource.Tx, req *DeleteListenerRuleRequest) error {
	rule, lb, err := ruleNamed(tx, req.ListenerRuleName)
	if err != nil {
		return err
	}
	if err := ListenerRules.Delete(tx, rule); err != nil {
		return err
	}
	return lb.save(tx, balancerChanged)
}
