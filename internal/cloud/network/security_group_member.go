package network

import (
	"fmt"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// SecurityGroupsMember is a security group that a rule names. One of another
// account is kept as it was said: nobody is told whether it is there.
type SecurityGroupsMember struct {
	// The account ID of the owner of the group. By default, the caller's.
	AccountId       id.Account       `ref:"-"`
	SecurityGroupId id.SecurityGroup `ref:"-"` // The ID of the group.
	// The name of the group, which is enough in the public Cloud; absent from rules of a group
	// of a Net.
	SecurityGroupName string `wire:"omitempty"`
}

func (m SecurityGroupsMember) String() string {
	if m.SecurityGroupId != "" {
		return string(m.SecurityGroupId)
	}
	return fmt.Sprintf("'%s' of %s", m.SecurityGroupName, m.AccountId)
}

// findMember completes a member of a new rule of the group. In a Net, it is a group
// of the same Net or of a Net that is peered with it.
func (g *SecurityGroup) findMember(tx *resource.Tx, peers map[peer]bool, m SecurityGroupsMember) (SecurityGroupsMember, error) {
	if m.SecurityGroupId == "" && g.NetId != "" {
		return m, apierror.InvalidParameter.Errorf(
			"A rule of a group of a Net names other groups by ID, and not by name: '%s'.", m.SecurityGroupName)
	}
	if m.AccountId != id.Account(tx.Account()) {
		if g.NetId != "" && !peers[peer{account: m.AccountId}] {
			return m, apierror.MemberNotFound.Errorf("%s is peered with no Net of the account %s.", g.NetId, m.AccountId)
		}
		return m, nil
	}
	found, err := m.group(tx)
	switch {
	case err != nil:
		return m, err
	case g.NetId == "" && found.NetId != "":
		return m, apierror.NotInPublicCloud.Errorf(
			"The security group %s is of %s, and not for the public Cloud.", found.SecurityGroupId, found.NetId)
	case found.NetId != g.NetId && !peers[peer{m.AccountId, found.NetId}]:
		return m, apierror.NotInNet.Errorf(
			"The security group %s is not of %s, nor of a Net that is peered with it.", found.SecurityGroupId, g.NetId)
	}
	return SecurityGroupsMember{m.AccountId, found.SecurityGroupId, found.SecurityGroupName}, nil
}

// GroupNamed finds a security group of the account by its name, in a Net or, if
// there is none, in the public Cloud.
func GroupNamed(tx *resource.Tx, net id.Net, name string) (*SecurityGroup, error) {
	if g := groupNamed(tx, net, name); g != nil {
		return g, nil
	}
	return nil, apierror.SecurityGroupNotFound.NotFound("SecurityGroupName", name)
}

// group finds the account's group that a member names, by its ID or by its name in
// the public Cloud. If both are given, they must name the same group.
func (m SecurityGroupsMember) group(tx *resource.Tx) (*SecurityGroup, error) {
	found := groupNamed(tx, "", m.SecurityGroupName)
	if m.SecurityGroupId != "" {
		found = SecurityGroups.Find(tx, m.SecurityGroupId)
	}
	switch {
	case found == nil:
		return nil, apierror.MemberNotFound.Errorf("The security group %s doesn't exist.", m)
	case m.SecurityGroupName != "" && m.SecurityGroupName != found.SecurityGroupName:
		return nil, apierror.MemberNotFound.Errorf(
			"The security group %s does not have the name '%s'.", found.SecurityGroupId, m.SecurityGroupName)
	}
	return found, nil
}

// peer is a Net that another one is peered with, and the account that has it.
// Without a Net, it stands for any Net of the account.
type peer struct {
	account id.Account
	net     id.Net
}

// peersOf are the peers of a Net; none if there is no Net.
func peersOf(tx *resource.Tx, net id.Net) map[peer]bool {
	peers := map[peer]bool{}
	if net == "" {
		return peers
	}
	for p := range NetPeerings.Of(tx, net) {
		if p.State.Name != PeeringActive {
			continue
		}
		far := SourceNet(p.AccepterNet)
		if far.NetId == net && far.AccountId == id.Account(tx.Account()) {
			far = p.SourceNet
		}
		peers[peer{far.AccountId, far.NetId}], peers[peer{account: far.AccountId}] = true, true
	}
	return peers
}
