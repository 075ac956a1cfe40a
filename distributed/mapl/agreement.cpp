#include "agreement.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include <scape/problem/error.hpp>
#include <scape/problem/mix64.hpp>
#include <scape/problem/text.hpp>

namespace scape::mapl {

namespace {

std::string number(std::uint64_t bits) {
    return shortest(std::bit_cast<double>(bits));
}
std::string whole(std::uint64_t bits) {
    return std::to_string(bits);
}
template <class Choice>
std::string word(std::uint64_t bits) {
    return std::string(name(static_cast<Choice>(bits)));
}

/// A setting as it travels, and how it is told; without that it is others.
struct Field {
    const char* what;
    std::string (*told)(std::uint64_t bits);
};
constexpr std::array<Field, 20> fields{{{"width", whole},
                                        {"rank", whole},
                                        {"vocabulary", whole},
                                        {"anchors", word<Anchors>},
                                        {"order", word<Order>},
                                        {"beta", number},
                                        {"direction_iterations", whole},
                                        {"retraction_iterations", whole},
                                        {"seed", whole},
                                        {"payload", word<Payload>},
                                        {"codewords", whole},
                                        {"groups", whole},
                                        {"rounds", whole},
                                        {"subsets", whole},
                                        {"decay", number},
                                        {"the step", whole},
                                        {"the micro-batch", whole},
                                        {"subspace", nullptr},
                                        {"anchor", nullptr},
                                        {"codebook", nullptr}}};
using Record = std::array<std::uint64_t, fields.size()>;

std::uint64_t digest_of(const Floats& values) {
    std::uint64_t digest = values.size();
    for (const float value : values)
        digest = problem::mix64(digest + 1) ^ problem::mix64(std::bit_cast<std::uint32_t>(value));
    return digest;
}

Record record_of(const Settings& settings, const EndState& state) {
    const auto index = [](auto value) { return static_cast<std::uint64_t>(value); };
    const bool same_anchor = settings.anchors == Anchors::fixed || settings.anchors == Anchors::shared;
    return {index(settings.width),
            index(settings.rank),
            index(settings.vocabulary),
            index(settings.anchors),
            index(settings.order),
            std::bit_cast<std::uint64_t>(settings.beta),
            index(settings.direction_iterations),
            index(settings.retraction_iterations),
            settings.seed,
            index(settings.payload),
            index(settings.quantization.codewords),
            index(settings.quantization.groups),
            index(settings.quantization.rounds),
            index(settings.quantization.subsets),
            std::bit_cast<std::uint64_t>(settings.quantization.decay),
            index(state.steps),
            index(state.micro_batches),
            digest_of(state.a),
            same_anchor ? digest_of(state.anchor) ^ problem::mix64(digest_of(state.rows)) : 0,
            digest_of(state.codebooks)};
}

} // namespace

void agree(distributed::Peers& peers, int peer, Side side, const Settings& settings,
           const EndState& state) {
    const auto mine = std::make_shared<Record>(record_of(settings, state));
    const auto incoming = peers.receive(distributed::Traffic::agreement, peer, 0, sizeof(Record));
    peers.send(distributed::Traffic::agreement, peer, 0, mine, sizeof(Record));
    Record theirs{};
    std::memcpy(theirs.data(), incoming->wait(sizeof(Record)), sizeof(Record));
    const bool sends = side == Side::sender;
    const Record& sender = sends ? *mine : theirs;
    const Record& receiver = sends ? theirs : *mine;
    const std::string sending = "rank " + std::to_string(sends ? peers.rank() : peer);
    const std::string receiving = "rank " + std::to_string(sends ? peer : peers.rank());
    for (std::size_t i = 0; i < fields.size(); ++i)
        if (sender[i] != receiver[i]) {
            const Field& field = fields[i];
            const std::string what =
                field.told == nullptr
                    ? std::string("another ") + field.what + " than the sender, " + sending
                    : std::string(field.what) + " " + field.told(receiver[i]) + " where the sender, " +
                          sending + ", has " + field.told(sender[i]);
            throw Error("the receiver, " + receiving + ", has " + what + "; start both with the same");
        }
}

} // namespace scape::mapl
