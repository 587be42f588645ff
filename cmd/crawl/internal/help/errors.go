package help

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/document/spelling"
)

// FlagError says in our words what is wrong with a flag, and what was probably meant.
func FlagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		dashes := "--"
		if e.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		if says := config.RetiredFlag(name); says != "" {
			return exit.Usage(fmt.Errorf("%s%s %s", dashes, name, says))
		}
		if dashes == "-" {
			return exit.Usage(fmt.Errorf("-%s is not a flag of %q", name, cmd.CommandPath()))
		}
		var near string
		if flag := nearestFlag(cmd, name); flag != "" {
			near = "--" + flag
		}
		return exit.Usage(fmt.Errorf("--%s is not a flag of %q%s", name, cmd.CommandPath(), human.Meant(near)))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := e.GetFlag()
		return exit.Usage(fmt.Errorf("--%s needs a value: --%s %s", f.Name, f.Name, valueName(f)))
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return exit.Usage(fmt.Errorf("--%s %q: give %s", e.GetFlag().Name, e.GetValue(), wanted(e.GetFlag().Value.Type())))
	}
	return exit.Usage(err)
}

// wanted is what a value of a type of pflag's looks like. The flags of the
// configuration explain themselves.
func wanted(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration with its unit, such as 1m30s"
	case "float64":
		return "a number"
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number from 0 up"
	}
	return "another value"
}

// CheckSeeds catches a mistyped command before it is taken for a host name.
func CheckSeeds(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.ContainsAny(a, ".:/") || a == "localhost" {
			continue
		}
		return exit.Usage(fmt.Errorf("%q is neither a URL nor a command%s", a, human.Meant(NearestCommand(cmd, a))))
	}
	return nil
}

// nearestFlag guesses a flag of the command, hidden ones too: they work.
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return spelling.Nearest(name, names)
}

// NearestCommand guesses a verb.
func NearestCommand(root *cobra.Command, name string) string {
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return spelling.Nearest(name, names)
}
