package cli

import "github.com/spf13/cobra"

// nearEnough is the Levenshtein distance of what was typed to what is suggested,
// as cobra has it.
const nearEnough = 2

// Nearest is the name that somebody may have meant; empty: none is near.
func Nearest(typed string, names []string) string {
	list := &cobra.Command{SuggestionsMinimumDistance: nearEnough}
	for _, name := range names {
		list.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	if near := list.SuggestionsFor(typed); len(near) > 0 {
		return near[0]
	}
	return ""
}
