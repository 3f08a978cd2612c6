"""Addresses in pages or messages of attackers; `{p}` is the listener's port.

NAMES resolves the names, as a name server of the attacker would.
"""

URLS = (
    # Loopback, in every spelling that some resolver accepts
    *("http://127.0.0.1:{p}/", "http://127.0.0.2:{p}/", "http://127.255.255.254:{p}/"),
    *(
        "http://localhost:{p}/",
        "http://LOCALHOST:{p}/",
        "http://localhost.:{p}/",
        "http://LocalHost:{p}/x",
    ),
    *(
        "http://2130706433:{p}/",
        "http://0x7f000001:{p}/",
        "http://0X7F000001:{p}/",
        "http://017700000001:{p}/",
    ),
    *("http://0x7f.0x0.0x0.0x1:{p}/", "http://0177.0.0.1:{p}/", "http://0177.0000.0000.0001:{p}/"),
    *(
        "http://127.1:{p}/",
        "http://127.0.1:{p}/",
        "http://127.0x1:{p}/",
        "http://0x7f.1:{p}/",
        "http://0177.1:{p}/",
    ),
    *("http://127.000.000.001:{p}/", "http://00000127.0.0.1:{p}/", "http://127.0.0.01:{p}/"),
    *(
        "http://0:{p}/",
        "http://0.0.0.0:{p}/",
        "http://0x0:{p}/",
        "http://00:{p}/",
        "http://0.0:{p}/",
    ),
    *(
        "http://127.0.0.1.:{p}/",
        "http://4294967297:{p}/",
        "http://6425673729:{p}/",
        "http://127.0.0.256:{p}/",
    ),
    *(
        "http://１２７.0.0.1:{p}/",
        "http://127。0。0。1:{p}/",
        "http://①②⑦.0.0.1:{p}/",
        "http://127．0．0．1:{p}/",
    ),
    *(
        "http://ｌｏｃａｌｈｏｓｔ:{p}/",
        "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{p}/",
        "http://loc\u00adalhost:{p}/",
        "http://locaⅼhost:{p}/",
    ),
    *(
        "http://%31%32%37.0.0.1:{p}/",
        "http://127%2e0%2e0%2e1:{p}/",
        "http://127.0.0.1%00.example.com:{p}/",
    ),
    *("http://%6c%6f%63%61%6c%68%6f%73%74:{p}/", "http://127.0.0.1%2f.example.com:{p}/"),
    # IPv6, and IPv4 within it
    *(
        "http://[::1]:{p}/",
        "http://[0:0:0:0:0:0:0:1]:{p}/",
        "http://[0000::0001]:{p}/",
        "http://[::0.0.0.1]:{p}/",
    ),
    *(
        "http://[::]:{p}/",
        "http://[::127.0.0.1]:{p}/",
        "http://[::7f00:1]:{p}/",
        "http://[0::127.0.0.1]:{p}/",
    ),
    *(
        "http://[::ffff:127.0.0.1]:{p}/",
        "http://[::ffff:7f00:1]:{p}/",
        "http://[::FFFF:127.0.0.1]:{p}/",
    ),
    *(
        "http://[0:0:0:0:0:ffff:7f00:1]:{p}/",
        "http://[::ffff:0:127.0.0.1]:{p}/",
        "http://[::ffff:0.0.0.0]:{p}/",
    ),
    *(
        "http://[64:ff9b::127.0.0.1]:{p}/",
        "http://[64:ff9b::7f00:1]:{p}/",
        "http://[64:ff9b:1::7f00:1]:{p}/",
    ),
    *("http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b::10.0.0.1]/", "http://[2002:7f00:1::]:{p}/"),
    *("http://[2002:a9fe:a9fe::]/", "http://[2002:c0a8:1::1]/", "http://[2001:0:7f00:1::1]/"),
    *(
        "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
        "http://[::1%25lo]:{p}/",
        "http://[::1%lo]:{p}/",
    ),
    *(
        "http://[fe80::1]:{p}/",
        "http://[fe80::1%25eth0]:{p}/",
        "http://[fe80::1%eth0]:{p}/",
        "http://[fe80::1%1]/",
    ),
    *(
        "http://[fec0::1]/",
        "http://[fc00::1]/",
        "http://[fd00::1]/",
        "http://[fd00:ec2::254]/latest/meta-data/",
    ),
    *(
        "http://[ff02::1]/",
        "http://[ff05::1:3]/",
        "http://[100::1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
    ),
    *(
        "http://[5f00::1]/",
        "http://[2001:2::1]/",
        "http://[2001:10::1]/",
        "http://[::1",
        "http://::1:{p}/",
    ),
    *("http://[127.0.0.1]:{p}/", "http://[localhost]:{p}/", "http://[v1.x]:{p}/", "http://[]:{p}/"),
    # Networks without public pages
    *("http://10.0.0.1/", "http://10.255.255.255/", "http://172.16.0.1/", "http://172.31.255.254/"),
    *(
        "http://192.168.0.1/",
        "http://192.168.255.255/",
        "http://100.64.0.1/",
        "http://100.127.255.255/",
    ),
    *(
        "http://169.254.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.170.2/v2/credentials",
    ),
    *(
        "http://2852039166/latest/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
    ),
    *(
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://100.100.100.200/latest/",
    ),
    *(
        "http://192.0.0.192/opc/v1/",
        "http://168.63.129.16/machine/",
        "http://192.0.0.1/",
        "http://192.0.2.1/",
    ),
    *(
        "http://198.18.0.1/",
        "http://198.19.255.255/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
    ),
    *(
        "http://192.88.99.1/",
        "http://224.0.0.1/",
        "http://239.255.255.250:1900/",
        "http://240.0.0.1/",
    ),
    *(
        "http://255.255.255.255/",
        "http://0.1.2.3/",
        "http://012.0.0.1/",
        "http://0300.0250.1/",
        "http://3232235521/",
    ),
    # Names that resolve to internal addresses
    *("http://metadata.google.internal/", "http://metadata/", "http://metadata.google.internal./"),
    *(
        "http://instance-data/latest/",
        "http://localtest.me:{p}/",
        "http://127.0.0.1.nip.io:{p}/",
        "http://ip6-localhost:{p}/",
    ),
    *(
        "http://private.example/",
        "http://mixed.example:{p}/",
        "http://mixed6.example:{p}/",
        "http://mapped.example:{p}/",
    ),
    *(
        "http://zone.example:{p}/",
        "http://nat64.example:{p}/",
        "http://printer.local/",
        "http://router/",
        "http://empty.example/",
    ),
    *(
        "http://ﬁle.example:{p}/",
        "http://b\u00fccher.example:{p}/",
        "http://xn--bcher-kva.example:{p}/",
    ),
    # Ambiguous hosts
    *(
        "http://user@127.0.0.1:{p}/",
        "http://user:pw@127.0.0.1:{p}/",
        "http://example.com@127.0.0.1:{p}/",
    ),
    *(
        "http://example.com:80@127.0.0.1:{p}/",
        "http://example.com%40127.0.0.1:{p}/",
        "http://@127.0.0.1:{p}/",
    ),
    *(
        "http://127.0.0.1:{p}@example.com/",
        "http://:@127.0.0.1:{p}/",
        "http://a:b@c@127.0.0.1:{p}/",
    ),
    *(
        "http://example.com\\@127.0.0.1:{p}/",
        "http://127.0.0.1:{p}\\@example.com/",
        "http://127.0.0.1\\.example.com:{p}/",
    ),
    *(
        "http:\\\\127.0.0.1:{p}\\",
        "http:/\\127.0.0.1:{p}/",
        "http:///127.0.0.1:{p}/",
        "http:127.0.0.1:{p}/",
    ),
    *(
        "http:/127.0.0.1:{p}/",
        "http://127.0.0.1:{p}#@example.com/",
        "http://127.0.0.1:{p}?@example.com/",
    ),
    *("http://example.com#@127.0.0.1:{p}/", "//127.0.0.1:{p}/", "127.0.0.1:{p}", "localhost:{p}/"),
    # Characters that split lines or names
    *(
        "http://127.0.0.1:{p}/\r\nX: y",
        "http://127.0.0.1\r\n:{p}/",
        "http://127.0.0.1\t:{p}/",
        "http://12\t7.0.0.1:{p}/",
    ),
    *(
        "ht\ntp://127.0.0.1:{p}/",
        "http://127.0.0.1\0.example.com:{p}/",
        "http://127.0.0.1 :{p}/",
        "http:// 127.0.0.1:{p}/",
    ),
    *(
        "\x01http://127.0.0.1:{p}/",
        "http://127.0.0.1\u2028:{p}/",
        "http://a\r\nHost: b@127.0.0.1:{p}/",
        "http://\ud800:{p}/",
    ),
    # Ports and schemes
    *(
        "http://8.8.8.8:0/",
        "http://8.8.8.8:65536/",
        "http://8.8.8.8:-1/",
        "http://8.8.8.8:x/",
        "http://127.0.0.1:0{p}/",
    ),
    *(
        "file:///etc/passwd",
        "file://localhost/etc/passwd",
        "FILE:///etc/passwd",
        "ftp://127.0.0.1:{p}/",
        "gopher://127.0.0.1:{p}/_x",
    ),
    *(
        "dict://127.0.0.1:{p}/x",
        "ldap://127.0.0.1:{p}/",
        "tftp://127.0.0.1:{p}/",
        "data:text/plain,hi",
        "javascript:alert(1)",
    ),
    *(
        "jar:http://127.0.0.1:{p}!/",
        "ws://127.0.0.1:{p}/",
        "unix:///var/run/docker.sock",
        "http+unix://%2fvar%2frun%2fdocker.sock/",
    ),
    *(
        "view-source:http://127.0.0.1:{p}/",
        "url:http://127.0.0.1:{p}/",
        "http2://127.0.0.1:{p}/",
        "netdoc:///etc/passwd",
    ),
    *(
        "HTTP://127.0.0.1:{p}/",
        "https://127.0.0.1:{p}/",
        "http://",
        "http://:{p}/",
        "http://.:{p}/",
        "http://..:{p}/",
        "",
    ),
)

# Answers of the attacker's name server.
NAMES: dict[str, tuple[str, ...]] = {
    "metadata.google.internal": ("169.254.169.254",),
    "metadata": ("169.254.169.254",),
    "instance-data": ("169.254.169.254",),
    "localtest.me": ("127.0.0.1", "::1"),
    "127.0.0.1.nip.io": ("127.0.0.1",),
    "ip6-localhost": ("::1",),
    "private.example": ("192.168.1.1",),
    "mixed.example": ("93.184.215.14", "127.0.0.1"),
    "mixed6.example": ("2606:4700::1111", "::1"),
    "mapped.example": ("::ffff:127.0.0.1",),
    "zone.example": ("fe80::1%lo",),
    "nat64.example": ("64:ff9b::7f00:1",),
    "printer.local": ("169.254.7.7",),
    "router": ("192.168.0.1",),
    "empty.example": (),
    "file.example": ("127.0.0.1",),
    "xn--bcher-kva.example": ("127.0.0.1",),
}
