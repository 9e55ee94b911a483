// Command bastide runs an open cloud region that implements the OUTSCALE APIs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/bastide-cloud/bastide"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

// command is one of the program's commands.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, out, messages io.Writer) error
}

var commands = []command{
	{"serve", "run a region in the foreground", serve},
	{"export", "write the content of a store to a file, or to the output", exportStore},
	{"import", "fill a store with an export", importStore},
	{"backup", "copy a region, which may be running, to a new directory", backup},
	{"env", "print what clients need to call the region", env},
	{"openapi", "print the OpenAPI document of the API", openAPI},
	{"version", "print the program's version", version},
}

func main() {
	// The first signal ends the command gracefully, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "bastide: %v\n", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "bastide: %v\n", err)
		os.Exit(1)
	}
}

// errUsage marks an invalid command line.
var errUsage = errors.New("see 'bastide help'")

func dispatch(ctx context.Context, args []string, out, messages io.Writer) error {
	if len(args) == 0 {
		usage(messages)
		return fmt.Errorf("no command given: %w", errUsage)
	}
	if args[0] == balancerCommand {
		return runBalancer(ctx, args[1:], out, messages)
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out, messages)
		}
	}
	if name := strings.TrimLeft(args[0], "-"); name == "help" || name == "h" {
		usage(out)
		return nil
	}
	return fmt.Errorf("there is no command %q: %w", args[0], errUsage)
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Bastide runs an open cloud region that implements the OUTSCALE APIs.\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  bastide %-9s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nbastide COMMAND -h lists the flags of a command. The environment variable BASTIDE_<FLAG> sets a flag, too.\n")
}

// parse reads flags. A flag that is not on the command line is read from the
// environment, as BASTIDE_ and its name.
func parse(flags *flag.FlagSet, args []string, messages io.Writer) error {
	_, err := parseWith("", flags, args, messages)
	return err
}

// parseWith is parse for a command that takes an operand. operand describes it
// in errors, such as "file"; empty: the command takes none.
func parseWith(operand string, flags *flag.FlagSet, args []string, messages io.Writer) (string, error) {
	flags.SetOutput(messages)
	var err error
	flags.VisitAll(func(f *flag.Flag) {
		name := "BASTIDE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok && err == nil {
			if setErr := f.Value.Set(value); setErr != nil {
				err = fmt.Errorf("%s: %w", name, setErr)
			}
		}
	})
	if err != nil {
		return "", err
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return "", err
		}
		return "", fmt.Errorf("%w: %w", err, errUsage)
	}
	flags.Visit(func(f *flag.Flag) { // flags of the command line
		if f.Name == "store" && sqljournal.HasPassword(f.Value.String()) {
			fmt.Fprintln(messages, "Warning: --store has a password, which every user of this machine can read from the command line. "+
				"Give the URL in BASTIDE_STORE, or the password in a file (--store-password-file, PGPASSFILE) or in PGPASSWORD.")
		}
	})
	switch {
	case operand == "" && flags.NArg() > 0:
		return "", fmt.Errorf("%q is not a flag: %w", withoutPassword(flags.Arg(0)), errUsage)
	case flags.NArg() > 1:
		return "", fmt.Errorf("%q follows the %s, which comes last: %w", withoutPassword(flags.Arg(1)), operand, errUsage)
	}
	return flags.Arg(0), nil
}

// withoutPassword returns an argument in the form for errors, because it may
// have been meant as the URL of a database.
func withoutPassword(arg string) string {
	if !sqljournal.HasPassword(arg) {
		return arg
	}
	return "a URL with a password"
}

func openAPI(_ context.Context, args []string, out, messages io.Writer) error {
	if err := parse(flag.NewFlagSet("openapi", flag.ContinueOnError), args, messages); err != nil {
		return err
	}
	_, err := out.Write(bastide.OpenAPI)
	return err
}

func version(_ context.Context, args []string, out, messages io.Writer) error {
	if err := parse(flag.NewFlagSet("version", flag.ContinueOnError), args, messages); err != nil {
		return err
	}
	text := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		text = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				text += " " + s.Value
			}
		}
	}
	_, err := fmt.Fprintln(out, "bastide", text)
	return err
}
