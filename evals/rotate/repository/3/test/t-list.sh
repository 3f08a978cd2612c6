echo x > a
rotate -q a
rotate -q a
[ "$(rotations a | tr '\n' ' ')" = "a.1 a.2 " ]
