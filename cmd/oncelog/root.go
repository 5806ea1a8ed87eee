package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

const exitCodesHelp = `Exit status: 0 sound, 1 damage found, 2 could not look (wrong usage included).`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "oncelog",
		Short: "Look into Kafka log directories",
		Long:  "oncelog looks into the log directories of Apache Kafka and of the oncelog engine.\n\n" + exitCodesHelp,
		Example: `  oncelog dump /var/lib/kafka/data/orders-0 --records
  oncelog dump --help`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("oncelog {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd, err)
	})
	root.AddCommand(newDumpCommand(), newRecoverCommand(), newConsumeCommand(), newVerifyCommand(), newBenchCommand(), newVersionCommand())
	return root
}

// unknownCommand refuses words behind the bare name of the program.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(cmd, fmt.Errorf("unknown command %q", args[0]))
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  oncelog version",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "oncelog %s\n", version())
			return err
		},
	}
}

// version is the module's version and where it was built for, and the commit
// if the program was built from a checkout.
func version() string {
	text, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			text = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = " " + s.Value
			}
		}
	}
	return fmt.Sprintf("%s%s %s %s/%s", text, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
