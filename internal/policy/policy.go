// Package policy is the language of EIM policies: it reads their documents and
// decides by them whether an action is allowed.
//
// A document is a JSON object with a list of statements. Each statement allows or
// denies actions of the region's APIs. None is about single resources or has
// conditions. The source of the language is the user guide of the real service,
// EIM Policy Elements.
package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Action is an action as policies name it: api:CreateNet is the action CreateNet
// of the service api. The actions of two services have nothing to do with each
// other, even if they do the same.
type Action struct{ Service, Name string }

// Services are the services that policies are about, as statements name them. The
// actions of all others are allowed to the root account only.
var Services = []string{"api", "ec2", "elasticloadbalancing", "iam", "directconnect"}

// Document is a policy document that was read. It does not change.
type Document struct{ statements []statement }

// statement allows or denies some actions.
type statement struct {
	sid      string
	denies   bool
	except   bool // NotAction: it is about all actions that no pattern matches
	patterns []pattern
}

func (s *statement) covers(service uint8, name string) bool {
	for i := range s.patterns {
		if s.patterns[i].matches(service, name) {
			return !s.except
		}
	}
	return s.except
}

// pattern matches the actions of one service, or of all, by their names. A decision
// looks at hundreds of them, so it is small.
type pattern struct {
	service uint8 // its position in Services, from 1; 0: any
	exact   bool  // the name is the prefix

	prefix string   // of the names, before the first asterisk
	rest   []string // the texts after each asterisk; the last ends the names
}

// newPattern makes the pattern of a service and a name in which each * stands for
// any text.
func newPattern(service, name string) pattern {
	parts := strings.Split(name, "*")
	return pattern{number(service), len(parts) == 1, parts[0], parts[1:]}
}

// number is the position of a service in Services, from 1; 0: it is not in it.
func number(service string) uint8 { return uint8(slices.Index(Services, service) + 1) }

func (p *pattern) matches(service uint8, name string) bool {
	switch {
	case p.service != service && p.service != 0:
		return false
	case p.exact:
		return p.prefix == name
	case !strings.HasPrefix(name, p.prefix):
		return false
	}
	name = name[len(p.prefix):]
	last := len(p.rest) - 1
	for _, part := range p.rest[:last] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, p.rest[last])
}

// Policy is a document under the name by which decisions refer to it.
type Policy struct {
	Name string
	*Document
}

// Effect is what a decision comes to.
type Effect int

// The effects. An action that no statement covers is refused, as one that a
// statement denies.
const (
	Uncovered Effect = iota
	Allowed
	Denied
)

// Decision is what policies say of an action, and the statement that says so.
type Decision struct {
	Effect    Effect
	Policy    string // the name of the policy; empty: no statement covers the action
	Statement int    // the position of the statement in the policy, from 0
	Sid       string // of the statement, if it has one
}

// String is the decision for the operator's eyes.
func (d Decision) String() string {
	words := map[Effect]string{Allowed: "allowed", Denied: "denied"}
	if d.Effect == Uncovered {
		return "no statement allows it"
	}
	place := fmt.Sprintf("Statement[%d]", d.Statement)
	if d.Sid != "" {
		place += fmt.Sprintf(" (Sid %q)", d.Sid)
	}
	return fmt.Sprintf("%s by %s of %s", words[d.Effect], place, d.Policy)
}

// Decide decides about an action by all policies that apply to its caller: a
// statement that denies it stands above all that allow it. It names the first
// statement with that effect.
func Decide(policies []Policy, a Action) Decision {
	var decision Decision
	service := number(a.Service)
	if service == 0 {
		return decision
	}
	for i := range policies {
		statements := policies[i].statements
		for j := range statements {
			s := &statements[j]
			if decision.Effect == Allowed && !s.denies || !s.covers(service, a.Name) {
				continue
			}
			decision = Decision{Allowed, policies[i].Name, j, s.sid}
			if s.denies {
				decision.Effect = Denied
				return decision
			}
		}
	}
	return decision
}
