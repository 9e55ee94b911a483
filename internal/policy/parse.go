package policy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Parse reads a policy document. An error names the place in the document and the
// reason, such as `Statement[2].Action[0]: ` and what is wrong there.
func Parse(text string) (*Document, error) {
	p := &parser{Decoder: jsontext.NewDecoder(strings.NewReader(text))}
	doc := &Document{}
	hasStatements := false
	err := p.object("", func(name string) error {
		if name != "Statement" {
			return p.unknown(name, "a policy has Statement, and nothing else")
		}
		hasStatements = true
		return p.list("Statement", func(place string) error {
			s, err := p.statement(place)
			doc.statements = append(doc.statements, s)
			return err
		})
	})
	if err == nil && !hasStatements {
		err = errors.New("Statement is required")
	}
	if err == nil {
		if _, end := p.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows the policy")
		}
	}
	if err != nil {
		return nil, err
	}
	return doc, nil
}

// parser reads a document. Names and places are as the document has them.
type parser struct{ *jsontext.Decoder }

// unsupported are the elements of other services' policies, with the reason
// why they are refused.
var unsupported = map[string]string{
	"NotResource":  "resource-based policies are not supported: a policy is about all resources",
	"Principal":    "resource-based policies are not supported: a policy is about those whom it is linked to",
	"NotPrincipal": "resource-based policies are not supported: a policy is about those whom it is linked to",
	"Condition":    "conditions are not supported",
	"Version":      "policies have no version of their language",
}

// unknown is the error of an element that does not exist, at its place.
func (p *parser) unknown(place, rule string) error {
	name := place[strings.LastIndex(place, ".")+1:]
	if reason := unsupported[name]; reason != "" {
		return fmt.Errorf("%s: %s", place, reason)
	}
	for _, known := range []string{"Statement", "Sid", "Effect", "Action", "NotAction", "Resource"} {
		if name != known && strings.EqualFold(name, known) {
			return fmt.Errorf("%s: upper and lower case differ: the element is called %s", place, known)
		}
	}
	return fmt.Errorf("%s: there is no such element: %s", place, rule)
}

// explained is an error of the JSON reader in plain words.
func (p *parser) explained(err error) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("near byte %d, an element is given twice", p.InputOffset())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON document ends too early")
	}
	return fmt.Errorf("near byte %d, it is not JSON: %s", p.InputOffset(), strings.TrimPrefix(err.Error(), "jsontext: "))
}

// want reads a token of a kind.
func (p *parser) want(kind jsontext.Kind, place, called string) (jsontext.Token, error) {
	if got := p.PeekKind(); got != kind && strings.ContainsRune(`nft"0{[`, rune(got)) {
		if place == "" {
			return jsontext.Token{}, fmt.Errorf("it must be %s", called)
		}
		return jsontext.Token{}, fmt.Errorf("%s: it must be %s", place, called)
	}
	token, err := p.ReadToken()
	if err != nil {
		return token, p.explained(err)
	}
	return token, nil
}

// object reads an object and calls member for each name, before its value.
func (p *parser) object(place string, member func(name string) error) error {
	if _, err := p.want('{', place, "a JSON object"); err != nil {
		return err
	}
	for p.PeekKind() != '}' {
		name, err := p.ReadToken()
		if err != nil {
			return p.explained(err)
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := p.ReadToken()
	return err
}

// list reads a list of at least one item and calls item for each, before it.
func (p *parser) list(place string, item func(place string) error) error {
	if _, err := p.want('[', place, "a list"); err != nil {
		return err
	}
	n := 0
	for ; p.PeekKind() != ']'; n++ {
		if p.PeekKind() == 0 {
			_, err := p.ReadToken()
			return p.explained(err)
		}
		if err := item(fmt.Sprintf("%s[%d]", place, n)); err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("%s: it must have at least one item", place)
	}
	_, err := p.ReadToken()
	return err
}

// text reads a string.
func (p *parser) text(place string) (string, error) {
	token, err := p.want('"', place, "a string")
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

// statement reads one statement.
func (p *parser) statement(place string) (s statement, err error) {
	var given []string
	err = p.object(place, func(name string) error {
		given = append(given, name)
		at := place + "." + name
		switch name {
		case "Sid":
			s.sid, err = p.text(at)
		case "Effect":
			s.denies, err = p.effect(at)
		case "Action":
			s.patterns, err = p.actions(at)
		case "NotAction":
			s.except = true
			s.patterns, err = p.actions(at)
		case "Resource":
			err = p.resources(at)
		default:
			err = p.unknown(at, "a statement has Sid, Effect, Action or NotAction, and Resource")
		}
		return err
	})
	if err != nil {
		return s, err
	}
	action, notAction := slices.Contains(given, "Action"), slices.Contains(given, "NotAction")
	switch {
	case action && notAction:
		return s, fmt.Errorf("%s: Action and NotAction exclude each other", place)
	case !action && !notAction:
		return s, fmt.Errorf("%s: Action or NotAction is required", place)
	}
	for _, name := range []string{"Effect", "Resource"} {
		if !slices.Contains(given, name) {
			return s, fmt.Errorf("%s: %s is required", place, name)
		}
	}
	return s, nil
}

// effect reads whether a statement denies.
func (p *parser) effect(place string) (denies bool, err error) {
	text, err := p.text(place)
	if err == nil && text != "Allow" && text != "Deny" {
		err = fmt.Errorf("%s: '%.50s' is neither Allow nor Deny", place, text)
	}
	return text == "Deny", err
}

// resources reads the resources of a statement, which are all.
func (p *parser) resources(place string) error {
	return p.list(place, func(place string) error {
		text, err := p.text(place)
		if err == nil && text != "*" {
			err = fmt.Errorf("%s: '%.50s' is not *: resource-based policies are not supported, a policy is about all resources", place, text)
		}
		return err
	})
}

// actions reads the actions of a statement.
func (p *parser) actions(place string) (patterns []pattern, err error) {
	err = p.list(place, func(place string) error {
		text, err := p.text(place)
		if err != nil {
			return err
		}
		one, err := parsePattern(text)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		patterns = append(patterns, one)
		return nil
	})
	return patterns, err
}

// otherCodes are what services are called elsewhere.
var otherCodes = map[string]string{"fcu": "ec2", "lbu": "elasticloadbalancing", "eim": "iam", "directlink": "directconnect", "oapi": "api"}

// parsePattern reads an action of a statement, such as api:Read*. A * by itself is
// every action of every service.
func parsePattern(text string) (pattern, error) {
	if text == "*" {
		return newPattern("*", "*"), nil
	}
	service, name, ok := strings.Cut(text, ":")
	switch {
	case !ok:
		return pattern{}, fmt.Errorf("'%.50s' names no service: it must be * or a service and an action, such as api:CreateNet", text)
	case service != "*" && !slices.Contains(Services, service):
		rule := "the services are " + strings.Join(Services, ", ") + " and *"
		if code := otherCodes[service]; code != "" {
			rule = "in policies it is called " + code
		}
		return pattern{}, fmt.Errorf("'%.50s' is not a service of policies: %s", service, rule)
	case strings.Trim(name, letters) != "" || name == "":
		return pattern{}, fmt.Errorf("'%.50s' is not the name of an action: it has letters, digits and asterisks", name)
	}
	return newPattern(service, name), nil
}

// letters are the characters of the names of actions, and the asterisk.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*"
