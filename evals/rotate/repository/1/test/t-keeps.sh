echo one > a
rotate -q -k 2 a
echo two > a
rotate -q -k 2 a
echo three > a
rotate -q -k 2 a
[ "$(cat a.1)" = three ]
[ "$(cat a.2)" = two ]
[ ! -e a.3 ]
