#include <truestep/distributed/backend.hpp>

#include <truestep/problem/error.hpp>

namespace truestep::distributed {

namespace {

// The step asks takes_parts() first, so that a user never comes here.
[[noreturn]] void has_none() {
    throw Error("this backend takes no parts of a gradient; give a step its whole gradient at once");
}

[[noreturn]] void uses_none_up() {
    throw Error("this backend uses up no gradients; give a step one that it may only read");
}

[[noreturn]] void rounds_none() {
    throw Error("this backend takes no payload but fp32; set payload to that");
}

[[noreturn]] void adds_none() {
    throw Error("this backend adds on one level; leave groups out");
}

} // namespace

// So it does uses_up_gradients().
Backend::Refusal Backend::local_pass_over(const Scalars& /*scalars*/, std::span<float> /*gradient*/) {
    uses_none_up();
}

void Backend::keep(AlignedFloats& /*gradient*/) {
    uses_none_up();
}

void Backend::take_back() {
    uses_none_up();
}

void Backend::accumulate(const float* /*gradient*/, bool /*first*/) {
    has_none();
}

const float* Backend::accumulated() {
    has_none();
}

float* Backend::gather(std::size_t /*bucket*/, const Scalars& /*scalars*/, const float* /*gradient*/,
                       bool /*added*/, std::span<const problem::Range> /*where*/) {
    has_none();
}

void Backend::fold_in(std::size_t /*bucket*/, const Scalars& /*scalars*/, int /*ranks*/, Index /*at*/,
                      Index /*count*/) {
    has_none();
}

void Backend::place(std::size_t /*bucket*/, std::span<const problem::Range> /*where*/) {
    has_none();
}

const void* Backend::sent(std::size_t /*bucket*/) {
    has_none();
}

// So it does rounds_payloads().
Backend::Refusal Backend::first_overflow(const Scalars& /*scalars*/, const float* /*gradient*/) {
    rounds_none();
}

int Backend::payload_exponent() {
    rounds_none();
}

void Backend::scale_payload(int /*exponent*/) {
    rounds_none();
}

void Backend::round_payload() {
    rounds_none();
}

std::byte* Backend::round_means(Index /*at*/, Index /*count*/) {
    rounds_none();
}

std::byte* Backend::round_means_in(std::size_t /*bucket*/, Index /*at*/, Index /*count*/) {
    rounds_none();
}

void Backend::take_means(const Scalars& /*scalars*/, problem::Range /*own*/) {
    rounds_none();
}

void Backend::take_means_of(std::size_t /*bucket*/, const Scalars& /*scalars*/, problem::Range /*own*/,
                            std::span<const problem::Range> /*where*/) {
    rounds_none();
}

// So it does adds_groups().
float* Backend::received_sums(Index /*count*/) {
    adds_none();
}

void Backend::fold_sums(const Scalars& /*scalars*/, int /*groups*/, Index /*count*/, const float* /*sums*/,
                        float* /*means*/) {
    adds_none();
}

} // namespace truestep::distributed
