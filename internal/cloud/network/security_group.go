package network

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// SecurityGroup filters what the VMs and NICs in it receive and send. It is of
// a [Net], or of the public Cloud.
type SecurityGroup struct {
	// The account ID of the owner of the security group.
	AccountId    id.Account          `json:"-" ref:"-"`
	Description  string              // The description of the security group.
	InboundRules []SecurityGroupRule // What may be received.
	// The ID of the Net that the group is for; absent if it is for the public Cloud.
	NetId           id.Net
	OutboundRules   []SecurityGroupRule // What may be sent.
	SecurityGroupId id.SecurityGroup    // The ID of the security group.
	// The name of the security group, unique in its Net or in the public Cloud of the account.
	SecurityGroupName string
	Tags              []api.Tag // The tags of the security group.

	// Place is the name with the Net, which makes it unique there.
	Place string `wire:"-"`
	// Members are the other groups of the account that the rules name: what
	// keeps those groups.
	Members []id.SecurityGroup `wire:"-"`

	// InboundGroups and OutboundGroups are the groups by which filters on the rules
	// of a direction find the group: those that the rules name and, if there is a
	// rule at all, the group itself.
	InboundGroups  []SecurityGroupsMember `json:"-" wire:"-"`
	OutboundGroups []SecurityGroupsMember `json:"-" wire:"-"`

	// LastVmEnd is when the last VM that was in the group was terminated.
	LastVmEnd api.DateTime `wire:"-"`

	// Generation and ObservedGeneration are as in [Net]: of a group for the public Cloud.
	// The driver has any other one with its Net.
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`
}

// Pending reports whether the driver is behind.
func (g *SecurityGroup) Pending() bool { return g.ObservedGeneration < g.Generation }

// SecurityGroups are the security groups of the region.
var SecurityGroups = &resource.Kind[SecurityGroup, id.SecurityGroup]{
	Name:     "SecurityGroup",
	Tag:      "security-group",
	NotFound: apierror.SecurityGroupNotFound,
	InUse:    apierror.SecurityGroupInUse,
	Unique:   []string{"Place"},
	Conflict: apierror.SecurityGroupNameTaken,
}

// GroupName is the name that a security group is given.
type GroupName string

// Check reports a text that is too long or too short, has characters that
// names cannot have, or looks like an ID.
func (n GroupName) Check() error {
	if err := checkLength(string(n)); err != nil {
		return err
	}
	if looksLikeID(string(n)) {
		return apierror.InvalidName.Errorf("The name '%s' begins like the ID of a security group: sg-.", n)
	}
	if strings.Trim(string(n), nameMarks+letters) != "" {
		return apierror.InvalidName.Errorf("A name has letters without accents, digits, spaces and any of %s.", nameMarks[1:])
	}
	return nil
}

// GroupDescription is what a security group is said to be for.
type GroupDescription string

// Check reports a text that is too long or too short, or has characters that
// descriptions cannot have: they may have those of names, and letters with
// accents.
func (d GroupDescription) Check() error {
	if err := checkLength(string(d)); err != nil {
		return err
	}
	foreign := func(r rune) bool { return !strings.ContainsRune(nameMarks+letters, r) && !unicode.Is(unicode.Latin, r) }
	if strings.ContainsFunc(string(d), foreign) {
		return apierror.InvalidValue.Errorf("A description has letters, digits, spaces and any of %s.", nameMarks[1:])
	}
	return nil
}

// nameMarks are what names of groups have besides letters and digits.
const nameMarks = " _.-:/()#,@[]+=&;{}!$*"

// longestText is how many characters a name or a description has at most.
const longestText = 255

func checkLength(text string) error {
	if n := utf8.RuneCountInString(text); n == 0 || n > longestText {
		return apierror.InvalidLength.Errorf("The text has %d characters, and must have from 1 to %d.", n, longestText)
	}
	return nil
}

// looksLikeID tells the ID of a group from its name, where either may be said.
func looksLikeID(text string) bool { return strings.HasPrefix(text, id.SecurityGroup.Form("").Prefix) }

func securityGroupActions(region Region) []api.Action {
	r := api.NewResource(SecurityGroups, viewSecurityGroup)
	return []api.Action{
		api.Create(r, createSecurityGroup),
		api.Read[ReadSecurityGroupsRequest](r),
		api.Command("SecurityGroup", region.deleteSecurityGroup),
	}
}

func viewSecurityGroup(tx *resource.Tx, g *SecurityGroup) *SecurityGroup {
	g.AccountId = id.Account(tx.Account())
	g.InboundGroups, g.OutboundGroups = g.groupsIn(g.InboundRules), g.groupsIn(g.OutboundRules)
	if g.NetId != "" {
		g.InboundRules, g.OutboundRules = withoutNames(g.InboundRules), withoutNames(g.OutboundRules)
	}
	return g
}

// groupsIn are the groups by which filters find some rules of the group.
func (g *SecurityGroup) groupsIn(rules []SecurityGroupRule) (groups []SecurityGroupsMember) {
	if len(rules) == 0 {
		return nil
	}
	groups = []SecurityGroupsMember{{g.AccountId, g.SecurityGroupId, g.SecurityGroupName}}
	for _, r := range rules {
		groups = append(groups, r.SecurityGroupsMembers...)
	}
	return groups
}

// withoutNames are rules of a group of a Net as they are shown: they name other
// groups by ID only, because names are the public Cloud's.
func withoutNames(rules []SecurityGroupRule) []SecurityGroupRule {
	rules = slices.Clone(rules)
	for i := range rules {
		members := slices.Clone(rules[i].SecurityGroupsMembers)
		for j := range members {
			members[j].SecurityGroupName = ""
		}
		rules[i].SecurityGroupsMembers = members
	}
	return rules
}

// CreateSecurityGroupRequest asks for a security group.
type CreateSecurityGroupRequest struct {
	// What the security group is for: from 1 to 255 letters, digits, spaces and any of
	// `_.-:/()#,@[]+=&;{}!$*`.
	Description GroupDescription `api:"required"`
	// The ID of the Net that the security group is for. By default, it is for the public Cloud.
	NetId id.Net
	// The name of the security group, which no other of the Net, or of the public Cloud of the
	// account, has: from 1 to 255 letters without accents, digits, spaces and any of
	// `_.-:/()#,@[]+=&;{}!$*`. It does not begin with `sg-`.
	SecurityGroupName GroupName `api:"required"`
}

func createSecurityGroup(tx *resource.Tx, req *CreateSecurityGroupRequest) (*SecurityGroup, error) {
	g := newGroup(req.NetId, string(req.SecurityGroupName), string(req.Description))
	if g.NetId != "" { // which is found here, before what is in it
		if err := touch(tx, g.NetId); err != nil {
			return nil, err
		}
		g.OutboundRules = []SecurityGroupRule{allowAllOutbound(tx)}
	}
	if other := groupNamed(tx, g.NetId, g.SecurityGroupName); other != nil {
		return nil, apierror.SecurityGroupNameTaken.Errorf(
			"The security group %s has the name '%s' already.", other.SecurityGroupId, g.SecurityGroupName)
	}
	return g, tx.CheckLimit(g.groupQuota(), apierror.TooManySecurityGroups, siblings(tx, g.NetId)+1)
}

func newGroup(net id.Net, name, description string) *SecurityGroup {
	g := &SecurityGroup{NetId: net, SecurityGroupName: name, Description: description, Place: groupPlace(net, name)}
	if net == "" {
		g.Generation = 1
	}
	return g
}

// groupPlace is a name with the Net that it is unique in; no Net is the public
// Cloud.
func groupPlace(net id.Net, name string) string { return string(net) + "/" + name }

// groupNamed is the security group of a Net or, without one, of the public Cloud
// that has a name; nil: there is none.
func groupNamed(tx *resource.Tx, net id.Net, name string) *SecurityGroup {
	return first(SecurityGroups.Where(tx, "Place", groupPlace(net, name)))
}

// siblings is the number of groups of a Net or, without one, of the public
// Cloud.
func siblings(tx *resource.Tx, net id.Net) (n int) {
	groups := SecurityGroups.All(tx)
	if net != "" {
		groups = SecurityGroups.Of(tx, net)
	}
	for g := range groups {
		if g.NetId == net {
			n++
		}
	}
	return n
}

// groupQuota is the quota that counts the group.
func (g *SecurityGroup) groupQuota() string {
	if g.NetId == "" {
		return "sg_limit"
	}
	return "vpc_sg_limit"
}

// ruleQuota is the quota that counts the rules of the group.
func (g *SecurityGroup) ruleQuota() string {
	if g.NetId == "" {
		return "sg_rule_limit"
	}
	return "vpc_sg_rule_limit"
}

// securityGroupMeters read the quotas of groups and of their rules. Those of a
// Net or of a group show what the fullest one uses.
func securityGroupMeters() []resource.Meter {
	mostGroups := func(quota string) resource.Meter {
		return resource.GlobalMeter(quota, func(tx *resource.Tx) (most int) {
			used := map[id.Net]int{}
			for g := range SecurityGroups.All(tx) {
				if g.groupQuota() == quota {
					used[g.NetId]++
					most = max(most, used[g.NetId])
				}
			}
			return most
		})
	}
	mostRules := func(quota string) resource.Meter {
		return resource.GlobalMeter(quota, func(tx *resource.Tx) (most int) {
			for g := range SecurityGroups.All(tx) {
				if g.ruleQuota() == quota {
					most = max(most, g.ruleCount())
				}
			}
			return most
		})
	}
	return []resource.Meter{mostGroups("sg_limit"), mostGroups("vpc_sg_limit"), mostRules("sg_rule_limit"), mostRules("vpc_sg_rule_limit")}
}

// ReadSecurityGroupsRequest asks for security groups.
type ReadSecurityGroupsRequest struct {
	Filters *FiltersSecurityGroup // Which security groups to list; all of them if absent.
	api.Page
}

// FiltersSecurityGroup selects security groups. Two filters by rules may be met
// by two rules. Filters by the groups that rules of a direction name also find the
// group itself if it has a rule of that direction, as the real service does.
type FiltersSecurityGroup struct {
	// The account IDs of the owners of the security groups.
	AccountIds   []id.Account
	Descriptions []string // The descriptions of the security groups.
	// The account IDs of the owners of the groups that inbound rules name.
	InboundRuleAccountIds []id.Account `path:"InboundGroups.AccountId"`
	// The first ports of inbound rules, or their types of ICMP.
	InboundRuleFromPortRanges []int
	// The ranges that inbound rules name, in CIDR notation.
	InboundRuleIpRanges []api.CIDR
	// The protocols of inbound rules.
	InboundRuleProtocols []Protocol `path:"InboundRules.IpProtocol"`
	// The IDs of the groups that inbound rules name.
	InboundRuleSecurityGroupIds []id.SecurityGroup `path:"InboundGroups.SecurityGroupId"`
	// The names of the groups that inbound rules name.
	InboundRuleSecurityGroupNames []string `path:"InboundGroups.SecurityGroupName"`
	// The last ports of inbound rules, or their codes of ICMP.
	InboundRuleToPortRanges []int
	// The IDs of the Nets that the security groups are for.
	NetIds []id.Net
	// The account IDs of the owners of the groups that outbound rules name.
	OutboundRuleAccountIds []id.Account `path:"OutboundGroups.AccountId"`
	// The first ports of outbound rules, or their types of ICMP.
	OutboundRuleFromPortRanges []int
	// The ranges that outbound rules name, in CIDR notation.
	OutboundRuleIpRanges []api.CIDR
	// The protocols of outbound rules.
	OutboundRuleProtocols []Protocol `path:"OutboundRules.IpProtocol"`
	// The IDs of the groups that outbound rules name.
	OutboundRuleSecurityGroupIds []id.SecurityGroup `path:"OutboundGroups.SecurityGroupId"`
	// The names of the groups that outbound rules name.
	OutboundRuleSecurityGroupNames []string `path:"OutboundGroups.SecurityGroupName"`
	// The last ports of outbound rules, or their codes of ICMP.
	OutboundRuleToPortRanges []int
	SecurityGroupIds         []id.SecurityGroup // The IDs of the security groups.
	SecurityGroupNames       []string           // The names of the security groups.
	api.TagFilters
}

// DeleteSecurityGroupRequest deletes a security group that nothing is in and no
// other group names. It stays in use for a while after its last VM was terminated.
type DeleteSecurityGroupRequest struct {
	SecurityGroupId id.SecurityGroup // The ID of the security group to delete.
	// The name of the security group to delete. Without an ID, that of a group for the public
	// Cloud.
	SecurityGroupName string
}

// The real service refuses to delete a security group for about 90 seconds after
// its last VM was terminated. Here that is as many transitions as those would be
// if each took ten seconds, so that a region whose machines end within
// milliseconds has no caller wait for minutes.
const longestRest, restTransitions = 90 * time.Second, 9

// rest is how long a security group stays in use after its last VM.
func (region Region) rest() time.Duration {
	return min(longestRest, restTransitions*region.Transition)
}

// noteVmEnd notes the end of a VM in the security groups that it was the last VM
// of. It is called while its NICs are still linked. Default groups are not
// deleted by themselves, and so need no note.
func noteVmEnd(tx *resource.Tx, vm id.Vm) error {
	seen := map[id.SecurityGroup]bool{}
	for _, n := range VmNics(tx, vm) {
		for _, light := range n.SecurityGroups {
			g := SecurityGroups.Find(tx, light.SecurityGroupId)
			if seen[light.SecurityGroupId] || g == nil || g.SecurityGroupName == defaultGroup || g.hasVmBut(tx, vm) {
				continue
			}
			seen[g.SecurityGroupId], g.LastVmEnd = true, api.At(tx.Now())
			if err := SecurityGroups.Put(tx, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasVmBut reports whether another VM is in the group.
func (g *SecurityGroup) hasVmBut(tx *resource.Tx, vm id.Vm) bool {
	for n := range Nics.Of(tx, g.SecurityGroupId) {
		if n.LinkNic != nil && n.LinkNic.VmId != vm {
			return true
		}
	}
	return false
}

func (region Region) deleteSecurityGroup(tx *resource.Tx, req *DeleteSecurityGroupRequest) error {
	g, err := groupToDelete(tx, req)
	if err != nil {
		return err
	}
	if g.SecurityGroupName == defaultGroup {
		return apierror.DefaultSecurityGroup.Errorf("The security group %s is a default one, which cannot be deleted.", g.SecurityGroupId)
	}
	if err := SecurityGroups.Delete(tx, g); err != nil {
		return err
	}
	if free := g.LastVmEnd.Time().Add(region.rest()); !g.LastVmEnd.IsZero() && free.After(tx.Now()) {
		return apierror.SecurityGroupInUse.Errorf("The security group %s is in use until %s, because its last VM has just been terminated.",
			g.SecurityGroupId, free.UTC().Format(time.RFC3339))
	}
	return g.touch(tx)
}

func groupToDelete(tx *resource.Tx, req *DeleteSecurityGroupRequest) (*SecurityGroup, error) {
	name := req.SecurityGroupName
	switch {
	case req.SecurityGroupId == "" && name == "":
		return nil, apierror.MissingParameter.Errorf("SecurityGroupId or SecurityGroupName is required.")
	case req.SecurityGroupId != "":
		g, err := SecurityGroups.Get(tx, req.SecurityGroupId)
		if err == nil && name != "" && g.SecurityGroupName != name {
			err = apierror.SecurityGroupNotFound.Errorf("The SecurityGroupName '%s' is not the name of %s.", name, req.SecurityGroupId)
		}
		return g, err
	}
	if g := groupNamed(tx, "", name); g != nil {
		return g, nil
	}
	return nil, apierror.SecurityGroupNotFound.Errorf("The SecurityGroupName '%s' doesn't exist in the public Cloud.", name)
}

// touch makes the driver hear of a change of the group, which the caller writes.
func (g *SecurityGroup) touch(tx *resource.Tx) error {
	if g.NetId == "" {
		g.Generation++
		return nil
	}
	return touch(tx, g.NetId)
}

// defaultGroup is the name of the group for whoever names none. Each Net has
// one, and each account one for the public Cloud.
const defaultGroup = "default"

// addDefaultGroup makes the default group of a new Net.
func addDefaultGroup(tx *resource.Tx, net *Net) error { return insertDefaultGroup(tx, net.NetId) }

// insertDefaultGroup makes the default group of a Net or, without one, of the
// public Cloud: what is in it may talk to each other.
func insertDefaultGroup(tx *resource.Tx, net id.Net) error {
	g := newGroup(net, defaultGroup, "default security group")
	if net != "" {
		g.OutboundRules = []SecurityGroupRule{allowAllOutbound(tx)}
	}
	if err := SecurityGroups.Insert(tx, g); err != nil {
		return err
	}
	members := newRule(tx, everything)
	members.SecurityGroupsMembers = []SecurityGroupsMember{{id.Account(tx.Account()), g.SecurityGroupId, g.SecurityGroupName}}
	g.InboundRules = []SecurityGroupRule{members}
	return SecurityGroups.Put(tx, g)
}

// dropDefaultGroup deletes the default group of a Net that is deleted.
func dropDefaultGroup(tx *resource.Tx, net *Net) error {
	g := groupNamed(tx, net.NetId, defaultGroup)
	if g == nil {
		return nil
	}
	err := SecurityGroups.Delete(tx, g)
	if apierror.SecurityGroupInUse.Is(err) {
		err = apierror.NetInUse.Errorf("The Net %s stays while its default group does. %s", net.NetId, apierror.From(err).Details)
	}
	return err
}

// defaultGroupOf finds the default group of a Net or, without one, of the
// public Cloud.
func defaultGroupOf(tx *resource.Tx, net id.Net) (id.SecurityGroup, error) {
	if g := groupNamed(tx, net, defaultGroup); g != nil {
		return g.SecurityGroupId, nil
	}
	return "", fmt.Errorf("there is no default security group of the Net '%s'", net)
}

// wantSecurityGroups adds the security groups of a Net to what the driver must have.
func wantSecurityGroups(tx *resource.Tx, n *Net, want *driver.Net) error {
	for g := range SecurityGroups.Of(tx, n.NetId) {
		want.SecurityGroups = append(want.SecurityGroups, driver.SecurityGroup{
			ID: string(g.SecurityGroupId), Inbound: driverRules(g.InboundRules), Outbound: driverRules(g.OutboundRules),
		})
	}
	return nil
}
