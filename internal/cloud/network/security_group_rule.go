package network

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// SecurityGroupRule lets some packets through: of one protocol, with a port in
// a range, from or to any of its ranges, members and services. For a protocol
// and ports a group has one rule at most: what is added for the same joins it.
type SecurityGroupRule struct {
	// The first port, or the type of ICMP; -1 for all.
	FromPortRange int `default:"-1"`
	// `tcp`, `udp`, `icmp`, in a Net the number of a protocol, or `-1` for all.
	IpProtocol Protocol `default:"-1"`
	// The ranges that packets may come from or go to, in CIDR notation; absent if there are
	// none.
	IpRanges []api.CIDR `wire:"omitempty"`
	// The ID of the rule. In a request, it says nothing.
	SecurityGroupRuleId id.SecurityGroupRule `ref:"-"`
	// The security groups whose members packets may come from or go to; absent if there are
	// none.
	SecurityGroupsMembers []SecurityGroupsMember `wire:"omitempty"`
	// The IDs of the services that packets may go to, of outbound rules; absent if there are
	// none.
	ServiceIds []string `wire:"omitempty"`
	// The last port, or the code of ICMP; -1 for all.
	ToPortRange int `default:"-1"`
}

// Flow is the direction of packets.
type Flow string

// The directions, as seen from what is in the group.
const (
	Inbound  Flow = "Inbound"
	Outbound Flow = "Outbound"
)

// Literals implements [api.Enum].
func (Flow) Literals() []string { return []string{"Inbound", "Outbound"} }

func (r *SecurityGroupRule) traffic() traffic {
	return traffic{r.IpProtocol, r.FromPortRange, r.ToPortRange}
}

func securityGroupRuleActions(region Region) []api.Action {
	r := api.NewResource(SecurityGroups, viewSecurityGroup).InFamily("SecurityGroupRule")
	return []api.Action{
		api.Update(r, region.createSecurityGroupRule),
		api.Update(r, deleteSecurityGroupRule),
	}
}

// CreateSecurityGroupRuleRequest lets more packets through: it says one rule
// itself, or several in Rules.
type CreateSecurityGroupRuleRequest struct {
	// Whether the packets are received or sent. Only groups of a Net say what may be sent.
	Flow Flow `api:"required"`
	// The first port, or the type of ICMP. Without any port, a rule of TCP or UDP is for all of
	// them. Not with `Rules`.
	FromPortRange int `default:"-1"`
	// `tcp`, `udp`, `icmp`, in a Net the number of a protocol, or `-1` for all. By default,
	// `-1`. Not with `Rules`.
	IpProtocol Protocol `default:"-1"`
	// The range that the packets may come from or go to, in CIDR notation. Not with `Rules`.
	IpRange api.CIDR
	// The rules to add, if the other parameters say none.
	Rules []SecurityGroupRule
	// The account ID of the owner of the group in `SecurityGroupNameToLink`. By default, the
	// caller's.
	SecurityGroupAccountIdToLink id.Account
	// The ID of the security group to add the rules to.
	SecurityGroupId id.SecurityGroup `api:"required"`
	// The ID of the group whose members the packets may come from or go to. In the public
	// Cloud, this may be its name. Not with `IpRange` or `Rules`.
	SecurityGroupNameToLink string
	// The last port, or the code of ICMP. Not with `Rules`.
	ToPortRange int `default:"-1"`
}

func (region Region) createSecurityGroupRule(tx *resource.Tx, g *SecurityGroup, req *CreateSecurityGroupRuleRequest) error {
	flat := SecurityGroupRule{IpProtocol: req.IpProtocol, FromPortRange: req.FromPortRange, ToPortRange: req.ToPortRange}
	flat = flat.withEndpoint(req.IpRange, req.SecurityGroupAccountIdToLink, req.SecurityGroupNameToLink)
	rules, err := g.requested(tx, req.Flow, flat, req.Rules)
	if err != nil {
		return err
	}
	peers := peersOf(tx, g.NetId)
	for _, r := range rules {
		for i, m := range r.SecurityGroupsMembers {
			if r.SecurityGroupsMembers[i], err = g.findMember(tx, peers, m); err != nil {
				return err
			}
		}
		for _, service := range r.ServiceIds {
			if err := region.checkService(service); err != nil {
				return err
			}
		}
	}
	if err := g.add(tx, req.Flow, rules); err != nil {
		return err
	}
	if err := tx.CheckLimit(g.ruleQuota(), apierror.TooManyRules, g.ruleCount()); err != nil {
		return err
	}
	return g.changed(tx)
}

// DeleteSecurityGroupRuleRequest lets fewer packets through: it says exactly
// what was let through, itself for one rule, or in Rules for several.
type DeleteSecurityGroupRuleRequest struct {
	// Whether the packets are received or sent.
	Flow Flow `api:"required"`
	// The first port, or the type of ICMP. Not with `Rules`.
	FromPortRange int `default:"-1"`
	// `tcp`, `udp`, `icmp`, in a Net the number of a protocol, or `-1` for all. By default,
	// `-1`. Not with `Rules`.
	IpProtocol Protocol `default:"-1"`
	// The range that the packets may come from or go to, in CIDR notation. Not with `Rules`.
	IpRange api.CIDR
	// The rules to take away, if the other parameters say none.
	Rules []SecurityGroupRule
	// The account ID of the owner of the group in `SecurityGroupNameToUnlink`. By default, the
	// caller's.
	SecurityGroupAccountIdToUnlink id.Account
	// The ID of the security group to take the rules from.
	SecurityGroupId id.SecurityGroup `api:"required"`
	// The ID of the group whose members the packets may come from or go to. In the public
	// Cloud, this may be its name. Not with `IpRange` or `Rules`.
	SecurityGroupNameToUnlink string
	// The last port, or the code of ICMP. Not with `Rules`.
	ToPortRange int `default:"-1"`
}

func deleteSecurityGroupRule(tx *resource.Tx, g *SecurityGroup, req *DeleteSecurityGroupRuleRequest) error {
	flat := SecurityGroupRule{IpProtocol: req.IpProtocol, FromPortRange: req.FromPortRange, ToPortRange: req.ToPortRange}
	flat = flat.withEndpoint(req.IpRange, req.SecurityGroupAccountIdToUnlink, req.SecurityGroupNameToUnlink)
	rules, err := g.requested(tx, req.Flow, flat, req.Rules)
	if err != nil {
		return err
	}
	if err := g.remove(req.Flow, rules); err != nil {
		return err
	}
	return g.changed(tx)
}

// withEndpoint returns the rule with the range or the group that a request gives,
// the group by its ID or its name.
func (r SecurityGroupRule) withEndpoint(ipRange api.CIDR, account id.Account, group string) SecurityGroupRule {
	if ipRange != "" {
		r.IpRanges = []api.CIDR{ipRange}
	}
	switch {
	case looksLikeID(group):
		r.SecurityGroupsMembers = []SecurityGroupsMember{{AccountId: account, SecurityGroupId: id.SecurityGroup(group)}}
	case group != "" || account != "":
		r.SecurityGroupsMembers = []SecurityGroupsMember{{AccountId: account, SecurityGroupName: group}}
	}
	return r
}

// requested returns the rules of a request, either one in its own parameters or
// those of its list, in the form in which groups keep them.
func (g *SecurityGroup) requested(
	tx *resource.Tx, flow Flow, flat SecurityGroupRule, list []SecurityGroupRule,
) ([]SecurityGroupRule, error) {
	switch given := flat.traffic() != everything || len(flat.endpoints()) > 0; {
	case flow == Outbound && g.NetId == "":
		return nil, apierror.InvalidParameter.Errorf(
			"The security group %s is for the public Cloud, where there are no rules for outbound packets.", g.SecurityGroupId)
	case given && len(list) > 0:
		return nil, apierror.InvalidParameterSet.Errorf("Rules cannot be given together with the parameters of a single rule.")
	case len(list) > 0:
		return completed(tx, list, flow, g.NetId != "")
	case len(flat.endpoints()) == 0:
		return nil, apierror.MissingParameter.Errorf("A rule needs an IpRange or another security group, unless it is in Rules.")
	case len(flat.endpoints()) > 1:
		return nil, apierror.InvalidParameterSet.Errorf("An IpRange and another security group cannot be given together.")
	}
	err := flat.complete(tx, flow, g.NetId != "")
	return []SecurityGroupRule{flat}, err
}

// completed returns the rules of a list in the form in which groups keep them.
func completed(tx *resource.Tx, list []SecurityGroupRule, flow Flow, inNet bool) ([]SecurityGroupRule, error) {
	list = slices.Clone(list)
	for i := range list {
		if err := list[i].complete(tx, flow, inNet); err != nil {
			return nil, apierror.In(fmt.Sprintf("Rules.%d", i), err)
		}
	}
	return list, nil
}

// complete brings a rule to the form in which groups keep it.
func (r *SecurityGroupRule) complete(tx *resource.Tx, flow Flow, inNet bool) error {
	t, err := r.traffic().normal(inNet)
	if err != nil {
		return err
	}
	r.IpProtocol, r.FromPortRange, r.ToPortRange = t.protocol, t.from, t.to
	if len(r.endpoints()) == 0 {
		return apierror.MissingParameter.Errorf("A rule needs at least one of IpRanges, SecurityGroupsMembers and ServiceIds.")
	}
	if flow == Inbound && len(r.ServiceIds) > 0 {
		return apierror.InvalidParameter.Errorf("ServiceIds is for outbound rules: services of the region are where packets go.")
	}
	r.SecurityGroupsMembers = slices.Clone(r.SecurityGroupsMembers)
	for i := range r.SecurityGroupsMembers {
		m := &r.SecurityGroupsMembers[i]
		if m.SecurityGroupId == "" && m.SecurityGroupName == "" {
			return apierror.MissingParameter.Errorf("A member of a rule needs the ID or the name of a security group.")
		}
		if own := id.Account(tx.Account()); m.AccountId == "" {
			m.AccountId = own
		} else if m.AccountId != own && m.SecurityGroupId != "" {
			m.SecurityGroupName = "" // which cannot be checked
		}
	}
	return nil
}

// newRule is a rule for some traffic that lets nothing through yet.
func newRule(tx *resource.Tx, t traffic) SecurityGroupRule {
	ruleID := id.SecurityGroupRule(id.SecurityGroupRule.Form("").Random(tx.Rand()))
	return SecurityGroupRule{IpProtocol: t.protocol, FromPortRange: t.from, ToPortRange: t.to, SecurityGroupRuleId: ruleID}
}

// allowAllOutbound returns the rule that a group of a Net has from the beginning:
// its members may send everything to everywhere.
func allowAllOutbound(tx *resource.Tx) SecurityGroupRule {
	r := newRule(tx, everything)
	r.IpRanges = []api.CIDR{"0.0.0.0/0"}
	return r
}

// rules are the rules of one direction.
func (g *SecurityGroup) rules(flow Flow) *[]SecurityGroupRule {
	if flow == Inbound {
		return &g.InboundRules
	}
	return &g.OutboundRules
}

// permission is one thing that a rule lets through.
type permission struct {
	traffic  traffic
	endpoint endpoint
}

// add adds permissions, all of which must be new.
func (g *SecurityGroup) add(tx *resource.Tx, flow Flow, added []SecurityGroupRule) error {
	rules := slices.Clone(*g.rules(flow))
	endpoints, place, has := make([][]endpoint, len(rules)), map[traffic]int{}, map[permission]bool{}
	note := func(t traffic, e endpoint) {
		for _, form := range e.forms() {
			has[permission{t, form}] = true
		}
	}
	for i := range rules {
		t := rules[i].traffic()
		place[t], endpoints[i] = i, rules[i].endpoints()
		for _, e := range endpoints[i] {
			note(t, e)
		}
	}
	for _, r := range added {
		t := r.traffic()
		i, ok := place[t]
		if !ok {
			i = len(rules)
			place[t], rules, endpoints = i, append(rules, newRule(tx, t)), append(endpoints, nil)
		}
		for _, e := range r.endpoints() {
			if has[permission{t, e.forms()[0]}] {
				return apierror.DuplicateRule.Errorf("The security group %s has an %s rule for %s and %s already.", g.SecurityGroupId, flow, t, e)
			}
			note(t, e)
			endpoints[i] = append(endpoints[i], e)
		}
	}
	for i := range rules {
		rules[i].setEndpoints(endpoints[i])
	}
	*g.rules(flow) = rules
	return nil
}

// remove removes permissions, all of which must exist. One that the request names
// twice is removed once, because clients repeat rules.
func (g *SecurityGroup) remove(flow Flow, removed []SecurityGroupRule) error {
	rules := *g.rules(flow)
	gone, err := g.find(flow, removed)
	if err != nil {
		return err
	}
	var left []SecurityGroupRule
	for i, r := range rules {
		var endpoints []endpoint
		for j, e := range r.endpoints() {
			if !gone[rulePlace{i, j}] {
				endpoints = append(endpoints, e)
			}
		}
		if len(endpoints) > 0 {
			r.setEndpoints(endpoints)
			left = append(left, r)
		}
	}
	*g.rules(flow) = left
	return nil
}

// rulePlace is where a permission is: the place of the rule in its group, and of the
// endpoint in the rule.
type rulePlace struct{ rule, endpoint int }

// find returns the places of permissions, and refuses one that does not exist.
func (g *SecurityGroup) find(flow Flow, wanted []SecurityGroupRule) (map[rulePlace]bool, error) {
	known, places, found := map[traffic]bool{}, map[permission]rulePlace{}, map[rulePlace]bool{}
	for i, r := range *g.rules(flow) {
		t := r.traffic()
		known[t] = true
		for j, e := range r.endpoints() {
			for _, form := range e.forms() {
				if _, ok := places[permission{t, form}]; !ok {
					places[permission{t, form}] = rulePlace{i, j}
				}
			}
		}
	}
	for _, r := range wanted {
		t := r.traffic()
		for _, e := range r.endpoints() {
			at, ok := places[permission{t, e.forms()[0]}]
			switch {
			case ok:
				found[at] = true
			case known[t]:
				return nil, apierror.RuleNotFound.Errorf("The security group %s has no %s rule for %s and %s.", g.SecurityGroupId, flow, t, e)
			default:
				return nil, apierror.RuleNotFound.Errorf("The security group %s has no %s rule for %s.", g.SecurityGroupId, flow, t)
			}
		}
	}
	return found, nil
}

// changed notes what follows from other rules: which groups they keep, and that
// the driver must hear of them.
func (g *SecurityGroup) changed(tx *resource.Tx) error {
	g.Members = nil
	seen := map[id.SecurityGroup]bool{g.SecurityGroupId: true}
	for _, r := range slices.Concat(g.InboundRules, g.OutboundRules) {
		for _, m := range r.SecurityGroupsMembers {
			if m.AccountId == id.Account(tx.Account()) && !seen[m.SecurityGroupId] {
				seen[m.SecurityGroupId] = true
				g.Members = append(g.Members, m.SecurityGroupId)
			}
		}
	}
	return g.touch(tx)
}

// ruleCount is the number of rules as quotas count them: each range, member and
// service is one.
func (g *SecurityGroup) ruleCount() (n int) {
	for _, r := range slices.Concat(g.InboundRules, g.OutboundRules) {
		n += len(r.IpRanges) + len(r.SecurityGroupsMembers) + len(r.ServiceIds)
	}
	return n
}

// endpoint is where packets come from or go to: one of the three.
type endpoint struct {
	ipRange api.CIDR
	member  SecurityGroupsMember
	service string
}

// forms returns the ways in which a request can name an endpoint. The first one is
// the most exact one: a group by its ID or, without one, by its name.
func (e endpoint) forms() []endpoint {
	m := e.member
	if m.SecurityGroupId == "" {
		return []endpoint{e}
	}
	forms := []endpoint{{member: SecurityGroupsMember{AccountId: m.AccountId, SecurityGroupId: m.SecurityGroupId}}}
	if m.SecurityGroupName != "" {
		forms = append(forms, endpoint{member: SecurityGroupsMember{AccountId: m.AccountId, SecurityGroupName: m.SecurityGroupName}})
	}
	return forms
}

func (e endpoint) String() string {
	switch {
	case e.ipRange != "":
		return string(e.ipRange)
	case e.service != "":
		return e.service
	}
	return e.member.String()
}

// endpoints returns where the packets of a rule may come from or go to.
func (r *SecurityGroupRule) endpoints() (endpoints []endpoint) {
	for _, ipRange := range r.IpRanges {
		endpoints = append(endpoints, endpoint{ipRange: ipRange})
	}
	for _, m := range r.SecurityGroupsMembers {
		endpoints = append(endpoints, endpoint{member: m})
	}
	for _, service := range r.ServiceIds {
		endpoints = append(endpoints, endpoint{service: service})
	}
	return endpoints
}

func (r *SecurityGroupRule) setEndpoints(endpoints []endpoint) {
	r.IpRanges, r.SecurityGroupsMembers, r.ServiceIds = nil, nil, nil
	for _, e := range endpoints {
		switch {
		case e.ipRange != "":
			r.IpRanges = append(r.IpRanges, e.ipRange)
		case e.service != "":
			r.ServiceIds = append(r.ServiceIds, e.service)
		default:
			r.SecurityGroupsMembers = append(r.SecurityGroupsMembers, e.member)
		}
	}
}

// driverRules are rules as drivers have them.
func driverRules(rules []SecurityGroupRule) (plain []driver.Rule) {
	for _, r := range rules {
		rule := driver.Rule{
			Protocol: string(r.IpProtocol), From: r.FromPortRange, To: r.ToPortRange,
			Ranges: prefixes(r.IpRanges), Services: r.ServiceIds,
		}
		for _, m := range r.SecurityGroupsMembers {
			name := driver.GroupName{Account: string(m.AccountId), ID: string(m.SecurityGroupId)}
			if name.ID == "" { // another account's, which only the driver may look for
				name.Name = m.SecurityGroupName
			}
			rule.Groups = append(rule.Groups, name)
		}
		plain = append(plain, rule)
	}
	return plain
}

// prefixes are ranges as addresses.
func prefixes(ranges []api.CIDR) (plain []netip.Prefix) {
	for _, r := range ranges {
		plain = append(plain, r.Prefix())
	}
	return plain
}
