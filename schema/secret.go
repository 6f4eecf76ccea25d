package schema

// secretTypes are attribute types of other servers whose values are passwords or
// equivalent to passwords. These types are always secret. The schema files of those
// servers do not mark the types as secret.
var secretTypes = map[string]bool{
	"1.3.6.1.4.1.7165.2.1.1":         true, // lmPassword
	"1.3.6.1.4.1.7165.2.1.2":         true, // ntPassword
	"1.3.6.1.4.1.7165.2.1.24":        true, // sambaLMPassword
	"1.3.6.1.4.1.7165.2.1.25":        true, // sambaNTPassword
	"1.3.6.1.4.1.7165.2.1.54":        true, // sambaPasswordHistory
	"1.3.6.1.4.1.7165.2.1.68":        true, // sambaClearTextPassword
	"1.3.6.1.4.1.7165.2.1.69":        true, // sambaPreviousClearTextPassword
	"2.16.840.1.113719.1.301.4.39.1": true, // krbPrincipalKey
	"2.16.840.1.113719.1.301.4.44.1": true, // krbPwdHistory
	"2.16.840.1.113719.1.301.4.46.1": true, // krbMKey
	"1.3.6.1.4.1.5322.10.1.10":       true, // krb5Key
	"1.3.6.1.1.1.1.29":               true, // nisSecretKey
	"2.16.840.1.113730.3.1.812":      true, // netscapeReversiblePassword
	"1.2.840.113556.1.4.55":          true, // dBCSPwd
	"1.2.840.113556.1.4.90":          true, // unicodePwd
	"1.2.840.113556.1.4.94":          true, // ntPwdHistory
	"1.2.840.113556.1.4.125":         true, // supplementalCredentials
	"1.2.840.113556.1.4.160":         true, // lmPwdHistory
}
