package acceptance

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/region"
)

// TestStories plays the stories in testdata. A story may say in a file
// region.json how its region is set up.
//
//	as NAME                    calls are signed by somebody: root, or an account made when first named
//	sign KEY SECRET            calls are signed with an access key
//	login EMAIL PASSWORD       calls are made with a password
//	unsigned                   calls prove nothing
//	at v1.1                    calls go to this version, or below this path
//	from ADDRESS               calls come from there
//	clock DURATION             the clock of the caller is off by so much
//	header NAME [VALUE]        calls have this header, or no longer
//	authority NAME CN          makes a certificate authority; $NAME is its certificate, ready for JSON
//	certificate CA CN          calls present a client certificate by the authority; without CA none
//	server NAME CA CN          makes a server certificate by the authority; $NAME and $NAME_KEY are it and its key, ready for JSON
//	call ACTION [JSON]         must succeed; with a ! it must be refused
//	send METHOD PATH [BODY]    anything else, whatever comes of it
//	status CODE                the HTTP status of the last answer
//	answered NAME VALUE        a header of the last answer
//	match PATH VALUE           what the last answer has at a path, as [answer.at] writes it…
//	match PATH absent          …or that it has nothing there…
//	match PATH count N         …or how many items…
//	match PATH regexp RE       …or what it looks like
//	error CODE [TEXT]          the code or type of the refusal, and a part of its sentence
//	save NAME PATH             keeps what the last answer has at a path, as $NAME
//	settle [DURATION]          the loops come to their end; the clock moves as far as they ask, unless that is further at once
//	advance DURATION           the clock moves
//	driver refuses OP WHY      the driver can never do what its method is asked for; EnsureMachine: it has no room
//	driver works               it refuses nothing any more
//	driver away                it hears nothing
//	driver takes DURATION      how long each change takes from now on
//	driver breaks ID WHY       a snapshot, or the file of an export, fails
//	driver shuts-down VM       the guest of a VM of the account shuts down by itself
//	driver deafens VM          the guest of a VM of the account does not shut down when it is asked to
//
// $NAME stands for its value in JSON bodies and refusals too. $ALICE_ACCOUNT,
// $ALICE_KEY, $ALICE_SECRET, $ALICE_EMAIL and $ALICE_PASSWORD are about somebody
// who was named with as; $LONG has 255 characters.
func TestStories(t *testing.T) {
	t.Parallel()
	walked := &walk{}
	if f := flag.Lookup("test.run"); f.Value.String() == "" || f.Value.String() == "TestStories" {
		t.Cleanup(func() { walked.check(t) })
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		Setup:              func(env *testscript.Env) error { return setUp(env, walked) },
		RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"as": told((*story).as), "sign": told((*story).sign), "login": told((*story).login), "unsigned": told((*story).unsigned),
			"at": told((*story).at), "from": told((*story).from), "clock": told((*story).clock), "header": told((*story).header),
			"authority": told((*story).authority), "certificate": told((*story).certificate), "server": told((*story).server),
			"call": told((*story).call), "send": told((*story).send), "save": told((*story).save),
			"status": told((*story).status), "answered": told((*story).answered), "match": told((*story).match), "error": told((*story).error),
			"settle": told((*story).settle), "advance": told((*story).advance), "driver": told((*story).driver),
		},
	})
}

// story is a script being played.
type story struct {
	*testscript.TestScript
	w           *testRegion
	caller      client
	account     string // of the last one named with as
	authorities map[string]*authority
	last        *answer
}

// setUp founds the region of a story.
func setUp(env *testscript.Env, walked *walk) error {
	t, ok := env.T().(tester)
	if !ok {
		return errors.New("stories are played by testscript.Run")
	}
	text, err := os.ReadFile(filepath.Join(env.WorkDir, "region.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	setting := struct {
		Region, Throttle string
		Quotas           map[string]int
		Gpus             map[string]map[string]int
	}{Throttle: "off"}
	if text != nil {
		if err := json.Unmarshal(text, &setting); err != nil {
			return err
		}
	}
	limits, err := auth.ParseLimits(setting.Throttle)
	if err != nil {
		return err
	}
	w := newTestRegion(t, func(o *region.Options) {
		o.Transitioned = walked.note
		o.Limits, o.Quotas, o.Gpus = limits, setting.Quotas, setting.Gpus
		if setting.Region != "" {
			o.Region = setting.Region
		}
	})
	env.Setenv("LONG", strings.Repeat("é", 255))
	env.Values["story"] = &story{w: w, caller: w.unsigned(), authorities: map[string]*authority{}}
	return nil
}

// told makes a command of a method.
func told(method func(s *story, neg bool, args []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		s := ts.Value("story").(*story)
		s.TestScript = ts
		method(s, neg, args)
	}
}

// plain stops the story if a command has a ! or not so many arguments.
func (s *story) plain(neg bool, args []string, least, most int) {
	if neg || len(args) < least || len(args) > most {
		s.Fatalf("this command takes no ! and %d to %d arguments", least, most)
	}
}

// filled is a text with variables in place of their names.
func (s *story) filled(text string) string {
	return os.Expand(text, func(name string) string {
		value := s.Getenv(name)
		if value == "" {
			s.Fatalf("there is no $%s", name)
		}
		return value
	})
}

func (s *story) as(neg bool, args []string) {
	s.plain(neg, args, 1, 1)
	p, name := s.w.person(args[0]), strings.ToUpper(args[0])
	for suffix, value := range map[string]string{
		"ACCOUNT": p.account, "KEY": p.key, "SECRET": p.secret, "EMAIL": p.email, "PASSWORD": p.password,
	} {
		s.Setenv(name+"_"+suffix, value)
	}
	s.caller, s.account = s.caller.signing(p.key, p.secret), p.account
}

func (s *story) sign(neg bool, args []string) {
	s.plain(neg, args, 2, 2)
	s.caller = s.caller.signing(args[0], args[1])
}

func (s *story) login(neg bool, args []string) {
	s.plain(neg, args, 2, 2)
	s.caller = s.caller.login(args[0], args[1])
}

func (s *story) unsigned(neg bool, args []string) {
	s.plain(neg, args, 0, 0)
	s.caller.sign = nil
}

func (s *story) at(neg bool, args []string) {
	s.plain(neg, args, 1, 1)
	s.caller = s.caller.at(args[0])
}

func (s *story) from(neg bool, args []string) {
	s.plain(neg, args, 1, 1)
	s.caller.from = args[0]
}

func (s *story) clock(neg bool, args []string) {
	s.plain(neg, args, 1, 1)
	off, err := time.ParseDuration(args[0])
	s.Check(err)
	s.caller.off = off
}

func (s *story) header(neg bool, args []string) {
	s.plain(neg, args, 1, 2)
	s.caller = s.caller.with(args[0], s.filled(strings.Join(args[1:], "")))
}

func (s *story) authority(neg bool, args []string) {
	s.plain(neg, args, 2, 2)
	ca := newAuthority(s.w.t, args[1])
	s.authorities[args[0]] = ca
	s.Setenv(args[0], strings.Trim(strconv.Quote(ca.pem()), `"`))
}

func (s *story) server(neg bool, args []string) {
	s.plain(neg, args, 3, 3)
	cert := s.authorities[args[1]].issue(s.w.t, args[2])
	s.Setenv(args[0], strings.Trim(strconv.Quote(certificatePem(cert)), `"`))
	s.Setenv(args[0]+"_KEY", strings.Trim(strconv.Quote(keyPem(s.w.t, cert)), `"`))
}

func (s *story) certificate(neg bool, args []string) {
	s.plain(neg, args, 0, 2)
	s.caller.chain = nil
	if len(args) == 2 {
		s.caller.chain = []*x509.Certificate{s.authorities[args[0]].issue(s.w.t, args[1]).Leaf}
	}
}

func (s *story) call(neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		s.Fatalf("call ACTION [JSON]")
	}
	s.last = s.caller.call(args[0], s.filled(strings.Join(args[1:], "")))
	switch {
	case neg && s.last.status == 200:
		s.Fatalf("%s succeeded: %s", args[0], s.last.text)
	case !neg && s.last.status != 200:
		s.Fatalf("%s was refused: %s", args[0], s.last.text)
	}
}

func (s *story) send(neg bool, args []string) {
	s.plain(neg, args, 2, 3)
	body := s.filled(strings.Join(args[2:], ""))
	if args[0] == "OPTIONS" || args[1] == "/openapi.json" { // which is no call
		got := s.caller.do(args[0], args[1], []byte(body))
		s.last = &answer{status: got.Code, header: got.Header(), text: got.Body.String()}
		return
	}
	s.last = s.caller.send(args[0], args[1], []byte(body))
}

func (s *story) status(neg bool, args []string) {
	s.plain(neg, args, 1, 1)
	if strconv.Itoa(s.last.status) != args[0] {
		s.Fatalf("the status is %d: %s", s.last.status, s.last.text)
	}
}

func (s *story) answered(neg bool, args []string) {
	s.plain(neg, args, 2, 2)
	if got := s.last.header.Get(args[0]); got != args[1] {
		s.Fatalf("the header %s is %q", args[0], got)
	}
}

func (s *story) match(neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		s.Fatalf("match PATH VALUE, match PATH absent, match PATH count N, or match PATH regexp RE")
	}
	got, ok := s.last.find(args[0])
	fits := ok && s.last.at(args[0]) == args[1]
	switch {
	case args[1] == "absent":
		fits = !ok
	case args[1] == "count":
		list, _ := got.([]any)
		fits = ok && strconv.Itoa(len(list)) == args[2]
	case args[1] == "regexp":
		re, err := regexp.Compile(args[2])
		s.Check(err)
		fits = ok && re.MatchString(s.last.at(args[0]))
	}
	if fits == neg {
		s.Fatalf("%s is %s in %s", args[0], s.last.at(args[0]), s.last.text)
	}
}

func (s *story) error(neg bool, args []string) {
	s.plain(neg, args, 1, 2)
	details := s.filled(strings.Join(args[1:], ""))
	if code := s.last.code(); code == "" || code != args[0] && s.last.at("Errors.0.Type") != args[0] {
		s.Fatalf("the refusal is another one: %s", s.last.text)
	}
	if !strings.Contains(s.last.details(), details) {
		s.Fatalf("the refusal says something else: %s", s.last.details())
	}
}

func (s *story) save(neg bool, args []string) {
	s.plain(neg, args, 2, 2)
	value := s.last.at(args[1])
	if value == "" {
		s.Fatalf("there is no %s in %s", args[1], s.last.text)
	}
	s.Setenv(args[0], value)
}

func (s *story) settle(neg bool, args []string) {
	s.plain(neg, args, 0, 1)
	within := while
	if len(args) == 1 {
		var err error
		within, err = time.ParseDuration(args[0])
		s.Check(err)
	}
	s.w.settleWithin(within)
}

func (s *story) advance(neg bool, args []string) {
	s.plain(neg, args, 1, 1)
	d, err := time.ParseDuration(args[0])
	s.Check(err)
	s.w.advance(d)
}

func (s *story) driver(neg bool, args []string) {
	s.plain(neg, args, 1, 3)
	args = append(args, "", "")
	verb, what, why := args[0], s.filled(args[1]), args[2]
	switch verb {
	case "refuses":
		var refusal error = driver.Never{Why: why}
		if what == "EnsureMachine" {
			refusal = driver.NoCapacity{What: why}
		}
		s.w.sim.Fail(func(op string) error {
			if op == what {
				return refusal
			}
			return nil
		})
	case "away":
		s.w.sim.Fail(func(string) error { return errors.New("the driver is away") })
	case "works":
		s.w.sim.Fail(nil)
	case "takes":
		d, err := time.ParseDuration(what)
		s.Check(err)
		s.w.sim.Slow(func(string) time.Duration { return d })
	case "breaks":
		s.w.sim.Break(what, why)
	case "shuts-down":
		s.w.sim.ShutDownGuest(s.account, what)
	case "deafens":
		s.w.sim.DeafenGuest(s.account, what)
	default:
		s.Fatalf("a driver does not know %s", verb)
	}
}
