# What Perl's Net::LDAP does with the server: exit status 0 if all is as it should
# be. The environment is that of ldap3_client.py.
use strict;
use warnings;
use utf8;
use Encode qw(decode_utf8 encode_utf8);
use Net::LDAP;
use Net::LDAP::Control::Assertion;
use Net::LDAP::Control::ManageDsaIT;
use Net::LDAP::Control::Paged;
use Net::LDAP::Control::PostRead;
use Net::LDAP::Control::PreRead;
use Net::LDAP::Control::Sort;
use Net::LDAP::Control::SortResult;
use Net::LDAP::Extension::SetPassword;
use Net::LDAP::Extension::WhoAmI;
use Net::LDAP::Constant qw(
	LDAP_ALREADY_EXISTS LDAP_ASSERTION_FAILED LDAP_COMPARE_FALSE LDAP_COMPARE_TRUE
	LDAP_CONSTRAINT_VIOLATION LDAP_CONTROL_PAGED LDAP_CONTROL_POSTREAD LDAP_CONTROL_PREREAD
	LDAP_CONTROL_SORTREQUEST LDAP_CONTROL_SORTRESULT LDAP_INSUFFICIENT_ACCESS
	LDAP_INVALID_CREDENTIALS LDAP_INVALID_SYNTAX LDAP_NOT_ALLOWED_ON_NONLEAF
	LDAP_NO_SUCH_ATTRIBUTE LDAP_OBJECT_CLASS_VIOLATION LDAP_REFERRAL LDAP_SUCCESS
	LDAP_TYPE_OR_VALUE_EXISTS LDAP_UNDEFINED_TYPE
);
binmode STDOUT, ':utf8';

my ($url, $base, $admin, $password) = @ENV{qw(URL BASE ADMIN PASSWORD)};
my $photo = join '', map { chr } (0 .. 255) x 40;
my $zoe = "uid=zo\x{eb}\\, o\x{2019}c,$base";
my $failures = 0;

sub check {
	my ($what, $got, $want) = @_;
	$_ = ref $_ ? join(' | ', @$_) : defined $_ ? "$_" : 'undef' for $got, $want;
	return if $got eq $want;
	print "$what: $got, want $want\n";
	$failures++;
}

# text gives values as text, sorted.
sub text { [sort map { decode_utf8($_) } @_] }

sub connection {
	my ($user, $pw) = @_;
	my %tls = $ENV{CA} ? (verify => 'require', cafile => $ENV{CA}) : ();
	my $c = Net::LDAP->new($url, %tls) or die "$url: $@\n";
	check('StartTLS', $c->start_tls(%tls)->code, LDAP_SUCCESS) if $ENV{STARTTLS};
	check('bind', $c->bind($user, password => $pw)->code, LDAP_SUCCESS);
	return $c;
}

# dn makes the octets of a name from its text.
sub dn { encode_utf8($_[0]) }

sub schema {
	my ($c) = @_;
	my $root = $c->root_dse;
	check('namingContexts', [$root->get_value('namingContexts')], ['dc=example,dc=com']);
	check('paged results', $root->supported_control('1.2.840.113556.1.4.319') ? 1 : 0, 1);
	my $s = $c->schema or return check('schema', 'none', 'one');
	check('cn', [map { $s->attribute($_)->{name} } qw(cn commonName 2.5.4.3)], [qw(cn cn cn)]);
	check('uidNumber', $s->attribute('uidNumber')->{'single-value'}, 1);
	check('MUST of inetOrgPerson', [sort map { $_->{name} } $s->must('inetOrgPerson')], [qw(cn objectClass sn)]);
	check('superclass', [$s->superclass('inetOrgPerson')], ['organizationalPerson']);
	check('a syntax', $s->syntax('1.3.6.1.4.1.1466.115.121.1.15') ? 1 : 0, 1);
	check('a rule', $s->matchingrule('caseIgnoreMatch') ? 1 : 0, 1);
}

sub add {
	my ($c) = @_;
	check('add', $c->add($base, attrs => [objectClass => 'organizationalUnit'])->error_name, 'LDAP_SUCCESS');
	my $r = $c->add(dn($zoe), attrs => [
		objectClass => 'inetOrgPerson', cn => dn("Zo\x{eb}"), sn => [dn("\x{141}\x{f3}d\x{17a}"), dn("\x{dc}nal")],
		jpegPhoto => $photo, mail => 'zoe@example.com', userPassword => 'first',
	]);
	check('add of a person', $r->error_name, 'LDAP_SUCCESS');
	for my $i (0 .. 22) {
		$c->add(sprintf('cn=d%02d,%s', $i, $base), attrs => [objectClass => 'device', serialNumber => 23 - $i]);
	}
	check('add again', $c->add($base, attrs => [objectClass => 'organizationalUnit'])->code, LDAP_ALREADY_EXISTS);
}

sub reading {
	my ($c) = @_;
	my $r = $c->search(base => $base, filter => dn("(uid=ZO\x{cb}, o\x{2019}c)"), attrs => ['*', '+']);
	check('search', [$r->error_name, $r->count], ['LDAP_SUCCESS', 1]);
	my $e = $r->entry(0);
	check('its name', decode_utf8($e->dn), "uid=zo\x{eb}\\, o\x{2019}c,$base");
	check('sn', text($e->get_value('sn')), ["\x{dc}nal", "\x{141}\x{f3}d\x{17a}"]);
	check('jpegPhoto', $e->get_value('jpegPhoto') eq $photo ? 1 : 0, 1);
	check('operational', $e->exists('entryUUID') ? 1 : 0, 1);
	$r = $c->search(base => $base, filter => '(cn=d0*)', attrs => ['cn'], typesonly => 1);
	check('types only', [$r->count, scalar($r->entry(0)->get_value('cn')) // ''], [10, '']);
	$r = $c->search(base => $base, filter => '(cn=d*)', sizelimit => 5);
	check('size limit', [$r->error_name, $r->count], ['LDAP_SIZELIMIT_EXCEEDED', 5]);
	$r = $c->search(base => "cn=x,ou=nowhere,$base", scope => 'base', filter => '(objectClass=*)');
	check('no such object', [$r->error_name, $r->dn], ['LDAP_NO_SUCH_OBJECT', $base]);
}

sub pages {
	my ($c) = @_;
	my $page = Net::LDAP::Control::Paged->new(size => 7, critical => 1);
	my %names;
	for my $pages (1 .. 9) {
		my $r = $c->search(base => $base, filter => '(objectClass=device)', attrs => ['1.1'], control => [$page]);
		$names{$_->dn}++ for $r->entries;
		my ($back) = $r->control(LDAP_CONTROL_PAGED) or last;
		length $back->cookie or last;
		$page->cookie($back->cookie);
	}
	check('pages', [scalar keys %names, scalar grep { $_ > 1 } values %names], [23, 0]);
}

sub order {
	my ($c) = @_;
	return unless $c->root_dse->supported_control(LDAP_CONTROL_SORTREQUEST);
	my $sort = Net::LDAP::Control::Sort->new(order => '-serialNumber cn', critical => 1);
	my $r = $c->search(base => $base, filter => '(objectClass=device)', attrs => ['serialNumber'], control => [$sort]);
	check('sort', [map { $_->get_value('serialNumber') } $r->entries], [reverse sort 1 .. 23]);
	my ($back) = $r->control(LDAP_CONTROL_SORTRESULT);
	check('sort result', $back && $back->result, 0);
}

sub modify {
	my ($c) = @_;
	my $r = $c->modify(dn($zoe), changes => [
		delete => [sn => dn("\x{dc}nal")], add => [sn => 'Ek', objectClass => 'posixAccount', uidNumber => 5, gidNumber => 5, homeDirectory => '/'],
		replace => [mail => []], increment => [uidNumber => 3],
	], control => [
		Net::LDAP::Control::PreRead->new(attrs => ['sn'], critical => 1), Net::LDAP::Control::PostRead->new(attrs => ['sn', 'uidNumber'], critical => 1),
		Net::LDAP::Control::Assertion->new(assertion => '(mail=zoe@example.com)', critical => 1),
	]);
	check('modify', [$r->error_name, $r->error], ['LDAP_SUCCESS', 'Success']);
	my ($pre) = $r->control(LDAP_CONTROL_PREREAD);
	my ($post) = $r->control(LDAP_CONTROL_POSTREAD);
	check('before', text($pre->entry->get_value('sn')), ["\x{dc}nal", "\x{141}\x{f3}d\x{17a}"]);
	check('after', [@{text($post->entry->get_value('sn'))}, $post->entry->get_value('uidNumber')], ['Ek', "\x{141}\x{f3}d\x{17a}", 8]);
	$r = $c->modify(dn($zoe), replace => {mail => 'x@y'}, control => Net::LDAP::Control::Assertion->new(assertion => '(mail=*)', critical => 1));
	check('a false assertion', $r->code, LDAP_ASSERTION_FAILED);
	my @refused = (
		[add => {bogus => 'x'}, LDAP_UNDEFINED_TYPE], [add => {sn => 'EK'}, LDAP_TYPE_OR_VALUE_EXISTS],
		[delete => ['street'], LDAP_NO_SUCH_ATTRIBUTE], [delete => ['sn'], LDAP_OBJECT_CLASS_VIOLATION],
		[replace => {entryUUID => 'x'}, LDAP_CONSTRAINT_VIOLATION], [replace => {uidNumber => 'x'}, LDAP_INVALID_SYNTAX],
	);
	check("$_->[0] refused", $c->modify(dn($zoe), $_->[0] => $_->[1])->code, $_->[2]) for @refused;
}

sub others {
	my ($c) = @_;
	check('compare', [map { $c->compare(dn($zoe), attr => 'sn', value => dn($_))->code } "\x{141}\x{d3}D\x{179}", 'none'], [LDAP_COMPARE_TRUE, LDAP_COMPARE_FALSE]);
	check('rename', $c->moddn("cn=d00,$base", newrdn => 'cn=D zero', deleteoldrdn => 1)->error_name, 'LDAP_SUCCESS');
	check('and move', $c->moddn("cn=d01,$base", newrdn => 'cn=d01', newsuperior => "cn=D zero,$base")->error_name, 'LDAP_SUCCESS');
	check('a non-leaf', $c->delete("cn=D zero,$base")->code, LDAP_NOT_ALLOWED_ON_NONLEAF);
	check('delete', $c->delete("cn=d01,cn=D zero,$base")->code, LDAP_SUCCESS);
	check('who am I', $c->who_am_i->response, "dn:$admin");
	my $r = $c->set_password(user => dn($zoe), oldpasswd => 'first');
	check('generated password', length($r->gen_password // '') > 8 ? 1 : 0, 1);
	check('Password Modify', $c->set_password(user => dn($zoe), newpasswd => dn("s\x{e9}cond"))->code, LDAP_SUCCESS);
	my $user = connection(dn($zoe), dn("s\x{e9}cond"));
	check('writing without the right', $user->delete($base)->code, LDAP_INSUFFICIENT_ACCESS);
	check('a wrong password', $user->bind(dn($zoe), password => 'first')->code, LDAP_INVALID_CREDENTIALS);
	$user->disconnect;
}

sub referrals {
	my ($c) = @_;
	my ($here, $manage) = ("ou=here,$base", Net::LDAP::Control::ManageDsaIT->new(critical => 1));
	my $there = "$ENV{PLAIN}/ou=groups,dc=example,dc=com";
	my $r = $c->add($here, attrs => [objectClass => ['referral', 'extensibleObject'], ref => $there], control => [$manage]);
	check('add of a referral', $r->error_name, 'LDAP_SUCCESS');
	$r = $c->search(base => $here, filter => '(cn=admins)');
	check('a referral', [$r->code, $r->referrals], [LDAP_REFERRAL, "$there??sub"]);
	$r = $c->search(base => $base, filter => '(cn=no one)');
	check('a reference', [$r->code, $r->references], [LDAP_SUCCESS, "$there??sub"]);
	check('delete of a referral', $c->delete($here, control => [$manage])->error_name, 'LDAP_SUCCESS');
}

my $c = connection($admin, $password);
for my $part (\&schema, \&add, \&reading, \&pages, \&order, \&modify, \&others, \&referrals) {
	eval { $part->($c); 1 } or do { print $@; $failures++ };
}
$c->unbind;
exit($failures > 0);
