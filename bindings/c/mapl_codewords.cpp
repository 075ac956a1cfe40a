// Provides C functions that encode a MAPL message as codewords, and decode it.
#include "mapl_codewords.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include <truestep/distributed/mapl/codec.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/value_digest.hpp>

#include "mapl_boundary.hpp"
#include "values.hpp"

namespace truestep::abi {

void must_be_finite(std::span<const float> values, const std::string& what) {
    if (!distributed::mapl::all_finite(values))
        throw Error(what + " has a value that is not finite; nothing has changed");
}

namespace {

distributed::mapl::Floats mapl_codebooks(const problem::mapl::Settings& settings,
                                         const truestep_values& given, const std::string& what) {
    const problem::mapl::Codebooks shape = problem::mapl::codebooks_of(settings);
    const std::string whole = "values of " + std::to_string(shape.books) + " books of " +
                              std::to_string(shape.words) + " codewords of " + std::to_string(shape.width);
    distributed::mapl::Floats room;
    const auto all =
        floats({&given, 1}, static_cast<problem::mapl::Index>(shape.size()), room, what, whole.c_str());
    must_be_finite(all, what);
    problem::mapl::check_codebooks(settings, all, what);
    return {all.begin(), all.end()};
}

/// The side whose copies of common data are newer.
std::size_t side_that_is_ahead(const MaplCodewords& of) {
    const auto [sender, receiver] = of.through;
    if (std::min(sender, receiver) > of.before && sender != receiver)
        throw Error("state: " + std::to_string(sender - of.before) +
                    " micro-batches have been encoded and " + std::to_string(receiver - of.before) +
                    " decoded; let all arrive");
    if (sender == receiver && of.books[0] != of.books[1])
        throw Error("state: the receiver has other codewords than the sender has sent; carry messages in "
                    "the order in which they were made, or restore both");
    return sender >= receiver ? 0U : 1U;
}

std::uint64_t mapl_version(const MaplCodewords& of, std::size_t side) {
    problem::Digest digest;
    digest.add(static_cast<std::uint64_t>(of.through[side]));
    digest.add(of.books[side]);
    return digest.value();
}

void must_have_codewords(const truestep_mapl_boundary& boundary, const char* call) {
    if (!problem::mapl::quantizes(boundary.settings))
        throw Error(std::string(call) +
                    ": the boundary has codewords=0, where z travels as it is; make one "
                    "with codewords, or leave this call out");
}

/// Limits tokens so that no number of values or bits overflows.
std::size_t mapl_tokens(const problem::mapl::Settings& settings, int64_t tokens) {
    const int64_t most =
        std::numeric_limits<int64_t>::max() / (settings.rank * settings.quantization.rounds * 64);
    if (tokens < 0 || tokens > most)
        throw Error("tokens is " + std::to_string(tokens) + "; give as many as z has rows, 0 or more");
    return static_cast<std::size_t>(tokens);
}

std::size_t mapl_message_bytes(const problem::mapl::Settings& settings, std::size_t tokens) {
    return problem::mapl::index_bytes(settings, tokens) + problem::mapl::codeword_bytes(settings);
}

void encode_mapl(truestep_mapl_boundary& boundary, const truestep_values& z, int64_t given,
                 std::byte* message, float* decoded) {
    const problem::mapl::Settings& settings = boundary.settings;
    MaplCodewords& mine = boundary.codewords;
    distributed::mapl::Floats& books = mine.books[TRUESTEP_MAPL_SENDER];
    must_have_codewords(boundary, "encode");
    const std::size_t tokens = mapl_tokens(settings, given);
    const std::string whole =
        "values of " + std::to_string(tokens) + " tokens of " + std::to_string(settings.rank);
    distributed::mapl::Floats room;
    const auto values = floats({&z, 1}, given * settings.rank, room, "z", whole.c_str());
    must_be_finite(values, "z");
    need(message, "message");
    distributed::mapl::Floats learned = mine.learned;
    std::vector<problem::mapl::Word> indices;
    if (tokens > 0)
        indices = boundary.form->encode(settings, values, books, learned);
    if (!distributed::mapl::all_finite(learned))
        throw Error("z: a codeword that is learned from it overflows; nothing has changed");
    if (decoded != nullptr && tokens > 0)
        boundary.form->decode(settings, indices, books, decoded);
    mine.learned = std::move(learned);
    const problem::mapl::Codebooks shape = problem::mapl::codebooks_of(settings);
    const auto words = problem::mapl::travelling(settings, mine.through[TRUESTEP_MAPL_SENDER]++);
    std::byte* codewords = message + problem::mapl::index_bytes(settings, tokens);
    distributed::mapl::pack_indices(indices, problem::mapl::index_bits(settings.quantization.codewords),
                                    message);
    distributed::mapl::gather_codewords(shape, words, mine.learned, codewords);
    distributed::mapl::scatter_codewords(shape, words, codewords, books);
}

std::vector<problem::mapl::Word> mapl_indices(const problem::mapl::Settings& settings,
                                              const std::byte* message, std::size_t tokens) {
    const problem::mapl::Codebooks shape = problem::mapl::codebooks_of(settings);
    std::vector<problem::mapl::Word> indices(tokens * shape.books);
    distributed::mapl::unpack_indices(message, problem::mapl::index_bits(settings.quantization.codewords),
                                      indices);
    for (std::size_t place = 0; place < indices.size(); ++place)
        if (indices[place] >= shape.words)
            throw Error("message: token " + std::to_string(place / shape.books) + " has the index " +
                        std::to_string(indices[place]) + "; there are " + std::to_string(shape.words) +
                        " codewords");
    return indices;
}

void decode_mapl(truestep_mapl_boundary& boundary, std::span<const std::byte> message,
                 const uint64_t* version, std::size_t tokens, float* z) {
    const problem::mapl::Settings& settings = boundary.settings;
    MaplCodewords& mine = boundary.codewords;
    distributed::mapl::Floats& books = mine.books[TRUESTEP_MAPL_RECEIVER];
    if (version != nullptr && *version != mapl_version(mine, TRUESTEP_MAPL_RECEIVER))
        throw Error(
            "version: the message is of other codebooks than this side has before its micro-batch " +
            std::to_string(mine.through[TRUESTEP_MAPL_RECEIVER]) +
            "; carry messages in the order in which they were made, or restore both sides");
    const std::vector<problem::mapl::Word> indices = mapl_indices(settings, message.data(), tokens);
    const std::byte* codewords = message.data() + problem::mapl::index_bytes(settings, tokens);
    distributed::mapl::Floats came(problem::mapl::codeword_bytes(settings) / sizeof(float));
    std::memcpy(came.data(), codewords, came.size() * sizeof(float));
    must_be_finite(came, "message");
    if (tokens > 0) {
        need(z, "z");
        boundary.form->decode(settings, indices, books, z);
    }
    const auto words = problem::mapl::travelling(settings, mine.through[TRUESTEP_MAPL_RECEIVER]++);
    distributed::mapl::scatter_codewords(problem::mapl::codebooks_of(settings), words, codewords, books);
}

} // namespace

MaplCodewords made_mapl_codewords(const problem::mapl::Settings& settings,
                                  const truestep_mapl_state& state) {
    if (!problem::mapl::quantizes(settings)) {
        if (state.codebooks.count != 0 || state.learned.count != 0)
            throw Error(
                "state: there are codebooks, and the boundary has codewords=0; leave their count 0");
        return {};
    }
    if (state.micro_batches < 0)
        throw Error("state: micro_batches is " + std::to_string(state.micro_batches) +
                    "; it must be at least 0");
    MaplCodewords made;
    made.books.fill(state.codebooks.count == 0
                        ? problem::mapl::first_codebooks(settings)
                        : mapl_codebooks(settings, state.codebooks, "state: codebooks"));
    made.learned = state.learned.count == 0 ? made.books[0]
                                            : mapl_codebooks(settings, state.learned, "state: learned");
    made.through.fill(state.micro_batches);
    made.before = state.micro_batches;
    return made;
}

void look_at_mapl_codewords(const MaplCodewords& of, truestep_mapl_state& state) {
    const std::size_t side = side_that_is_ahead(of);
    state.micro_batches = of.through[side];
    state.codebooks = view(of.books[side]);
    state.learned = view(of.learned);
}

extern "C" {

int64_t truestep_mapl_boundary_message_bytes(const truestep_mapl_boundary* boundary, int64_t tokens) {
    if (boundary == nullptr || !problem::mapl::quantizes(boundary->settings))
        return 0;
    try {
        const std::size_t some = mapl_tokens(boundary->settings, tokens);
        return static_cast<int64_t>(mapl_message_bytes(boundary->settings, some));
    } catch (const std::exception&) { // more than memory can hold
        return 0;
    }
}

truestep_status truestep_mapl_boundary_version(const truestep_mapl_boundary* boundary, int32_t side,
                                               uint64_t* version) {
    return guarded([&] {
        const auto& mine = need(boundary, "boundary");
        must_have_codewords(mine, "version");
        need(version, "version") = mapl_version(mine.codewords, mapl_side(side));
    });
}

truestep_status truestep_mapl_boundary_encode(truestep_mapl_boundary* boundary, const truestep_values* z,
                                              int64_t tokens, void* message, float* decoded) {
    return guarded([&] {
        encode_mapl(need(boundary, "boundary"), need(z, "z"), tokens, static_cast<std::byte*>(message),
                    decoded);
    });
}

truestep_status truestep_mapl_boundary_decode(truestep_mapl_boundary* boundary, const void* message,
                                              int64_t bytes, const uint64_t* version, int64_t tokens,
                                              float* z) {
    return guarded([&] {
        auto& mine = need(boundary, "boundary");
        must_have_codewords(mine, "decode");
        const std::size_t some = mapl_tokens(mine.settings, tokens);
        const std::size_t wanted = mapl_message_bytes(mine.settings, some);
        if (bytes < 0 || static_cast<std::size_t>(bytes) != wanted)
            throw Error("message: it has " + std::to_string(bytes) + " bytes; " + std::to_string(tokens) +
                        " tokens of this boundary make it " + std::to_string(wanted));
        need(message, "message");
        decode_mapl(mine, {static_cast<const std::byte*>(message), wanted}, version, some, z);
    });
}

} // extern "C"

} // namespace truestep::abi
