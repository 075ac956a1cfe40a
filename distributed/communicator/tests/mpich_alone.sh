#!/bin/bash
# mpich_alone.sh PROGRAM PROGRAM_MPICH: the second is linked with MPICH and nothing of the first's MPI. With both in one program, which
# of them a call goes to would be the linker's choice, and the tests would be of one alone.
set -u
of() { ldd "$1" | grep -oE 'lib(mpi|mpich|open-rte|open-pal)\.so' | sort -u | tr '\n' ' '; }
first=$(of "$1")
second=$(of "$2")
echo "$1: $first"
echo "$2: $second"
[ "$second" = 'libmpich.so ' ] && ! grep -q mpich <<<"$first" && grep -q mpi <<<"$first"
