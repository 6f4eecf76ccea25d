package schema

import "testing"

// rfc4518 contains test cases for each step of RFC 4518. Assertions with prohibited code
// points are undefined, and values with prohibited code points match no assertion.
var rfc4518 = []struct {
	name, rule       string
	value, assertion string
	want             string
}{
	{"2.1_transcode_invalid", "caseIgnoreMatch", "a", "a\xff", undefined},
	{"2.1_transcode_surrogate", "caseIgnoreMatch", "a", "\xed\xa0\x80", undefined},
	{"2.1_transcode_overlong", "caseIgnoreMatch", "a", "\xc1\xa1", undefined},

	{"2.2_map_soft_hyphen", "caseExactMatch", "co\u00adoperate", "cooperate", yes},
	{"2.2_map_mongolian_todo_soft_hyphen", "caseExactMatch", "a\u1806b", "ab", yes},
	{"2.2_map_grapheme_joiner", "caseExactMatch", "a\u034fb", "ab", yes},
	{"2.2_map_variation_selector", "caseExactMatch", "\u2764\ufe0f", "\u2764", yes},
	{"2.2_map_object_replacement", "caseExactMatch", "a\ufffcb", "ab", yes},
	{"2.2_map_tab_and_line_ends", "caseExactMatch", "a\t\r\nb", "a b", yes},
	{"2.2_map_next_line", "caseExactMatch", "a\u0085b", "a b", yes},
	{"2.2_map_no_break_space", "caseExactMatch", "a\u00a0b", "a b", yes},
	{"2.2_map_control", "caseExactMatch", "a\x01\x7fb", "ab", yes},
	{"2.2_map_zero_width_space", "caseExactMatch", "a\u200bb", "ab", yes},
	{"2.2_map_zero_width_is_no_space", "caseExactMatch", "a\u200bb", "a b", no},
	{"2.2_map_right_to_left_mark", "caseExactMatch", "\u200fשלום\u200e", "שלום", yes},
	{"2.2_map_bidi_embedding", "caseExactMatch", "\u202bשלום\u202c", "שלום", yes},
	{"2.2_map_byte_order_mark", "caseExactMatch", "\ufeffa", "a", yes},
	{"2.2_map_language_tag", "caseExactMatch", "a\U000e0041", "a", yes},
	{"2.2_fold_sharp_s", "caseIgnoreMatch", "Straße", "STRASSE", yes},
	{"2.2_fold_capital_sharp_s", "caseIgnoreMatch", "STRA\u1e9eE", "straße", yes},
	{"2.2_exact_keeps_sharp_s", "caseExactMatch", "Straße", "Strasse", no},
	{"2.2_fold_final_sigma", "caseIgnoreMatch", "ΟΔΟΣ", "οδος", yes},
	{"2.2_fold_final_sigma_as_other", "caseIgnoreMatch", "οδος", "οδοσ", yes},
	{"2.2_exact_keeps_final_sigma", "caseExactMatch", "οδος", "οδοσ", no},
	{"2.2_fold_dotted_i", "caseIgnoreMatch", "\u0130", "i\u0307", yes},
	{"2.2_fold_dotless_i_is_another", "caseIgnoreMatch", "\u0131", "i", no},
	{"2.2_fold_iota_subscript", "caseIgnoreMatch", "\u1f88", "\u1f00\u03b9", yes},
	{"2.2_fold_ligature", "caseIgnoreMatch", "\ufb03", "FFI", yes},

	{"2.3_normalize_composed", "caseExactMatch", "e\u0301", "\u00e9", yes},
	{"2.3_normalize_order_of_marks", "caseExactMatch", "q\u0307\u0323", "q\u0323\u0307", yes},
	{"2.3_normalize_full_width", "caseExactMatch", "\uff21\uff11", "A1", yes},
	{"2.3_normalize_half_width", "caseExactMatch", "\uff76\uff9e", "\u30ac", yes},
	{"2.3_normalize_hangul", "caseExactMatch", "\u1112\u1161\u11ab", "\ud55c", yes},
	{"2.3_normalize_angstrom", "caseExactMatch", "\u212b", "\u00c5", yes},
	{"2.3_normalize_superscript", "caseExactMatch", "x\u00b2", "x2", yes},
	{"2.3_other_letters_stay", "caseExactMatch", "\u0430", "a", no}, // a Cyrillic letter

	{"2.4_prohibit_private_use", "caseIgnoreMatch", "a", "a\ue000", undefined},
	{"2.4_prohibit_private_plane", "caseIgnoreMatch", "a", "\U000f0000", undefined},
	{"2.4_prohibit_noncharacter", "caseIgnoreMatch", "a", "\ufdd0", undefined},
	{"2.4_prohibit_replacement", "caseIgnoreMatch", "a", "\ufffd", undefined},
	{"2.4_prohibit_unassigned", "caseIgnoreMatch", "a", "\u0378", undefined},
	{"2.4_prohibited_value_matches_nothing", "caseIgnoreSubstringsMatch", "a\ue000", "a*", no},
	{"2.4_assigned_since", "caseIgnoreMatch", "\U0001f600", "\U0001f600", yes},

	{"2.5_bidi_is_not_checked", "caseExactMatch", "אa1", "אa1", yes},

	{"2.6.1_outer_spaces", "caseExactMatch", "  foo ", "foo", yes},
	{"2.6.1_inner_spaces", "caseExactMatch", "foo   bar", "foo bar", yes},
	{"2.6.1_inner_space_stays_one", "caseExactMatch", "foo bar", "foobar", no},
	{"2.6.1_only_spaces", "caseExactMatch", "   ", " ", yes},
	{"2.6.1_ideographic_space", "caseExactMatch", "foo\u3000bar", "foo bar", yes},
	{"2.6.1_space_under_a_mark", "caseExactMatch", "foo \u0301bar", "foo  \u0301bar", no},
	{"2.6.1_mark_is_no_end_of_space", "caseExactMatch", "foo \u0301bar", "foo bar", no},

	// Appendix B: the reason why spaces are doubled.
	{"B_space_before_and_behind_the_gap", "caseIgnoreSubstringsMatch", "foo bar", "foo * bar", yes},
	{"B_and_more_of_them", "caseIgnoreSubstringsMatch", "foo    bar", "foo * bar", yes},
	{"B_not_without_a_space", "caseIgnoreSubstringsMatch", "foobar", "foo * bar", no},
	{"B_something_between", "caseIgnoreSubstringsMatch", "foo x bar", "foo * bar", yes},
	{"B_outer_spaces_in_pieces", "caseIgnoreSubstringsMatch", "foobar", "* foobar *", yes},
	{"B_spaces_as_pieces", "caseIgnoreSubstringsMatch", "foobar", "* *foobar* *", yes},
	{"B_word_in_the_middle", "caseIgnoreSubstringsMatch", "foo bar baz", "* bar *", yes},
	{"B_part_of_a_word", "caseIgnoreSubstringsMatch", "foo rebar baz", "* bar *", no},

	{"2.6.2_numeric_spaces", "numericStringMatch", " 123  456 ", "123456", yes},
	{"2.6.2_numeric_nothing_but_spaces", "numericStringMatch", "   ", " ", yes},
	{"2.6.2_numeric_piece", "numericStringSubstringsMatch", "123 456", "1 2*5 6", yes},
	{"2.6.2_numeric_digits_differ", "numericStringMatch", "12", "13", no},

	{"2.6.3_telephone_spaces_and_hyphens", "telephoneNumberMatch", "+1 (800) 555-0100", "+1(800)5550100", yes},
	{"2.6.3_telephone_case", "telephoneNumberMatch", "+1 EXT 5", "+1 ext 5", yes},
	{"2.6.3_telephone_other_characters_count", "telephoneNumberMatch", "+1.800", "+1800", no},
}

// TestRFC4518 tests each step of string preparation and the pitfalls of the step.
func TestRFC4518(t *testing.T) {
	for _, c := range rfc4518 {
		t.Run(c.name, func(t *testing.T) {
			if got := verdict(t, rule(t, c.rule), c.value, c.assertion); got != c.want {
				t.Errorf("%s of %+q and %+q: %s; want %s", c.rule, c.value, c.assertion, got, c.want)
			}
		})
	}
}

// TestRFC4518CompactMarks checks that string preparation handles hyphens and combining
// marks outside ASCII in telephone numbers and numeric strings (RFC 4518, 2.6.2 and
// 2.6.3). Telephone numbers are PrintableStrings, so no valid value contains such
// characters.
func TestRFC4518CompactMarks(t *testing.T) {
	for _, c := range []struct{ name, in, numeric, telephone string }{
		{"2.6.2_space_under_a_mark", "1 \u03012", "1 \u03012", "1 \u03012"},
		{"2.6.3_hyphen_under_a_mark", "1-\u03012", "1-\u03012", "1-\u03012"},
		{"2.6.3_hyphens", "1\u20102\u20113\u22124\ufe635\uff0d6\u058a7", "", "1234567"},
		{"2.6.3_not_every_dash", "1\u20132", "", "1\u20132"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if k, err := telephoneKey([]byte(c.in)); err != nil || string(k) != c.telephone {
				t.Errorf("telephone: %+q, %v; want %+q", k, err, c.telephone)
			}
			if k, err := numericKey([]byte(c.in)); c.numeric != "" && (err != nil || string(k) != c.numeric) {
				t.Errorf("numeric: %+q, %v; want %+q", k, err, c.numeric)
			}
		})
	}
}
