"""Runs python-ldap's own tests, in the folder that is named, with servers of ldapd
in the place of slapd. Prints "failed NAME" for each that fails or ends with an error,
and "run N"."""

import os
import subprocess
import sys
import unittest

import slapdtest

LDAPD = os.environ["LDAPD"]
find_command = slapdtest.SlapdObject._find_command


class Ldapd(slapdtest.SlapdObject):
    """What differs from a slapd: how it is found, configured and started."""

    def _find_command(self, cmd, in_sbin=False):
        return LDAPD if cmd.startswith("slap") else find_command(self, cmd, in_sbin)

    def _write_config(self):
        with open(os.path.join(self.testrundir, "password"), "w") as f:
            f.write(self.root_pw + "\n")

    def _test_config(self):
        pass

    def slapadd(self, ldif, extra_args=None):
        """Adds schema as a file of cn=config; nothing else is added so."""
        name = os.path.join(self.testrundir, "schema.ldif")
        with open(name, "w") as f:
            f.write(ldif)
        subprocess.run([LDAPD, "schema", "add", "--store", self._store(), name], check=True, capture_output=True)

    def _store(self):
        return os.path.join(self._db_directory, "store")

    def _start_slapd(self):
        me = rf"dn:gidNumber={os.getgid()}\+uidNumber={os.getuid()},cn=peercred,cn=external,cn=auth -> {self.root_dn}"
        self._log_file = open(os.path.join(self.testrundir, "log"), "ab")
        self._proc = subprocess.Popen(
            [LDAPD, "serve", "--create", "--access", "open", "--password-policy", "none", "--store", self._store(),
             "--suffix", self.suffix, "--listen", self.ldap_uri.rstrip("/"), "--listen", self.ldapi_uri,
             "--admin-dn", self.root_dn, "--admin-password-file", os.path.join(self.testrundir, "password"),
             "--sasl-identity", me, "--sasl-identity", "u:(.+) -> ldap:///??sub?(uid=$1)",
             "--tls-certificate", self.servercert, "--tls-key", self.serverkey,
             "--tls-client-certificates", "request", "--tls-client-ca", self.cafile],
            stdout=subprocess.PIPE, stderr=self._log_file)
        if not self._proc.stdout.readline().startswith(b"ready"):
            self._log_file.close()
            with open(self._log_file.name) as f:
                raise RuntimeError("ldapd did not start: " + f.read())


# The tests derive classes of their own from slapd's.
for name, method in vars(Ldapd).items():
    if not name.startswith("__"):
        setattr(slapdtest.SlapdObject, name, method)


def main(folder):
    sys.path.insert(0, os.getcwd())
    tests = unittest.defaultTestLoader.discover(folder, pattern="t_*.py", top_level_dir=".")
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(tests)
    for test in [test for test, _ in result.failures + result.errors] + result.unexpectedSuccesses:
        # A subtest's name has its values behind it.
        print("failed", test.id().split(" (")[0] if test.id().startswith("Tests") else test.id())
    print("run", result.testsRun)


main(sys.argv[1])
