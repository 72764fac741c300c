"""Certificates for TLS between processes of a test, made by openssl."""

import subprocess
from pathlib import Path

import pytest


def certificates(folder: Path) -> dict[str, str]:
    """An authority and one certificate of it, made by openssl, as Dask's configuration names them."""
    made = {name: str(folder / f"{name}.pem") for name in ("ca", "ca-key", "key", "request", "cert")}
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    try:
        for words in (
            ["req", "-x509", *new, "-keyout", made["ca-key"], "-out", made["ca"], "-subj", "/CN=authority"],
            ["req", *new, "-keyout", made["key"], "-out", made["request"], "-subj", "/CN=dask"],
            ["x509", "-req", "-in", made["request"], "-CA", made["ca"], "-CAkey", made["ca-key"], "-CAcreateserial", "-out", made["cert"]],
        ):
            subprocess.run(["openssl", *words], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return {"tls_ca_file": made["ca"], "tls_client_cert": made["cert"], "tls_client_key": made["key"]}
