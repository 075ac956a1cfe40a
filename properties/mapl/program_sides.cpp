// The two sides of a boundary in a program, as the gate plays a stage with them.
#include "program.hpp"

#include <bit>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <truestep/gate/program_case.hpp>
#include <truestep/problem/mapl/quantization.hpp>

namespace truestep::properties::mapl {

namespace {

using gate::Programs;
using Json = Programs::Json;
using Bytes = std::vector<std::uint8_t>;

/// The conversation with one rank's process.
class Conversation {
  public:
    Conversation(Programs& programs, int workers, int rank, const std::filesystem::path& folder)
        : programs_(programs), workers_(workers), rank_(rank), files_(folder, rank) {}

    Json ask(Json message) {
        const std::string what = message["do"];
        return programs_.ask_one(workers_, rank_, std::move(message), what);
    }
    [[nodiscard]] std::string file(const std::string& what) const { return files_.path(what); }
    template <class Value>
    [[nodiscard]] std::string written(const std::string& what, std::span<const Value> values) {
        return files_.write(what, std::as_bytes(values));
    }
    template <class Value>
    [[nodiscard]] std::vector<Value> taken(const std::string& what, std::size_t count) {
        std::vector<Value> values(count);
        if (const auto fault = files_.take(what, std::as_writable_bytes(std::span(values))); !fault.empty())
            throw std::runtime_error("rank " + std::to_string(rank_) + " " + fault);
        return values;
    }

  private:
    Programs& programs_;
    int workers_;
    int rank_;
    gate::ProgramFiles files_;
};

/// The base of both sides; `Any` is AnySender or AnyReceiver.
template <class Any>
class ProgramSide : public Any {
  public:
    ProgramSide(Conversation talk, const Settings& settings, const EndState& state, Side side,
                RecordingPeers& tapped, int peer)
        : talk_(std::move(talk)), settings_(settings), tapped_(tapped), peer_(peer),
          side_(side == Side::sender ? "sender" : "receiver"), steps_(state.steps),
          micro_batches_(state.micro_batches), rows_(state.rows), senders_(side == Side::sender) {
        if (anchored() && rows_.empty())
            rows_ = anchor_rows(settings, side);
        begin(state);
    }

    Floats subspace() override { return view("subspace", values()); }
    Floats anchor() override { return anchored() ? view("anchor", table()) : Floats(); }
    Floats anchor_gradient() override { return trained() ? view("anchor_gradient", table()) : Floats(); }
    void set_anchor(std::span<const float> values) override {
        ask("anchor", {{"values", talk_.written("trained", values)}});
    }
    EndState state() override {
        EndState state{.steps = steps_, .micro_batches = micro_batches_};
        state.a = subspace();
        if (senders_)
            state.m = view("moment", values());
        state.anchor = anchor();
        state.rows = rows_;
        if (!quantizes(settings_))
            return state;
        state.codebooks = view("codebooks", codebooks_of(settings_).size());
        if (senders_)
            state.learned = view("learned", codebooks_of(settings_).size());
        return state;
    }

  protected:
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.rank); }
    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(settings_.width); }
    [[nodiscard]] std::size_t values() const { return width() * rank(); }
    [[nodiscard]] Json files(const std::vector<std::string>& names) const {
        Json all = Json::object();
        for (const std::string& name : names)
            all[name] = talk_.file(name);
        return all;
    }
    Json ask(const char* what, const Json& more = Json::object()) {
        Json asked{{"do", what}, {"side", side_}};
        asked.update(more);
        return talk_.ask(std::move(asked));
    }
    /// Asks about a micro-batch. `into`: the files that it has to write.
    void ask(const char* what, Index micro, const Json& more, Json into) {
        Json asked{{"step", steps_ + 1}, {"micro", micro}};
        asked.update(more);
        asked["into"] = std::move(into);
        ask(what, asked);
    }
    Floats view(const char* what, std::size_t count) {
        ask("view", {{"into", files({what})}});
        return talk_.taken<float>(what, count);
    }
    /// The bytes of Z or dZ as they are sent.
    [[nodiscard]] Bytes payload(const Floats& values, const char* what) const {
        const std::size_t each = value_bytes(settings_.payload);
        Bytes bytes;
        bytes.reserve(values.size() * each);
        for (const float value : values) {
            const auto bits = std::bit_cast<std::uint32_t>(value);
            if (each == 2 && (bits & 0xffffU) != 0)
                throw std::runtime_error(std::string(what) + " holds a number that does not fit 16 bits");
            for (std::size_t byte = 4 - each; byte < 4; ++byte)
                bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
        }
        return bytes;
    }
    void note(const Bytes& bytes) { tapped_.note(peer_, bytes.data(), bytes.size()); }
    void next_step() {
        ++steps_;
        micro_batches_ += batches_;
        batches_ = 0;
        tokens_.clear();
    }

    Conversation talk_;
    Settings settings_;
    RecordingPeers& tapped_;
    int peer_;
    std::string side_;
    Index steps_;
    Index micro_batches_;
    Index batches_ = 0;
    std::map<Index, std::size_t> tokens_; ///< of micro-batches under way

  private:
    [[nodiscard]] bool anchored() const { return settings_.anchors != Anchors::none; }
    [[nodiscard]] bool trained() const {
        return settings_.anchors == Anchors::shared || settings_.anchors == Anchors::two;
    }
    [[nodiscard]] std::size_t table() const {
        return static_cast<std::size_t>(settings_.vocabulary) * rank();
    }
    void begin(const EndState& state) {
        const Quantization& coded = settings_.quantization;
        Json asked{{"peer", peer_},
                   {"width", settings_.width},
                   {"subspace_rank", settings_.rank},
                   {"vocabulary", settings_.vocabulary},
                   {"anchors", name(settings_.anchors)},
                   {"order", name(settings_.order)},
                   {"payload", name(settings_.payload)},
                   {"beta", settings_.beta},
                   {"direction_iterations", settings_.direction_iterations},
                   {"retraction_iterations", settings_.retraction_iterations},
                   {"codewords", coded.codewords},
                   {"groups", coded.groups},
                   {"rounds", coded.rounds},
                   {"subsets", coded.subsets},
                   {"decay", coded.decay},
                   {"seed", settings_.seed},
                   {"steps", state.steps},
                   {"micro_batches", state.micro_batches}};
        const auto give = [&](const char* what, const Floats& values) {
            asked[what] = talk_.written(side_ + "." + what, std::span<const float>(values));
        };
        give("subspace", state.a);
        if (senders_)
            give("moment", state.m);
        if (anchored()) {
            give("anchor", state.anchor);
            give("rows", rows_);
        }
        if (quantizes(settings_)) {
            const Floats books = state.codebooks.empty() ? first_codebooks(settings_) : state.codebooks;
            give("codebooks", books);
            if (senders_)
                give("learned", state.learned.empty() ? books : state.learned);
        }
        ask("begin", asked);
    }

    Floats rows_;
    bool senders_;
};

class ProgramSender final : public ProgramSide<AnySender> {
  public:
    ProgramSender(Conversation talk, const Settings& settings, const EndState& state,
                  RecordingPeers& tapped, int peer)
        : ProgramSide(std::move(talk), settings, state, Side::sender, tapped, peer) {}

    void forward(Index micro, std::span<const float> activations, std::span<const Id> ids) override {
        const Json given{{"tokens", ids.size()},
                         {"activations", talk_.written("activations", activations)},
                         {"ids", talk_.written("ids", ids)}};
        ask("compress", micro, given,
            quantizes(settings_) ? files({"indices", "codewords"}) : files({"z"}));
        Bytes bytes = quantizes(settings_) ? indices(ids.size())
                                           : payload(talk_.taken<float>("z", ids.size() * rank()), "Z");
        for (const Id id : ids)
            for (std::size_t byte = 0; byte < id_bytes(settings_.vocabulary); ++byte)
                bytes.push_back(static_cast<std::uint8_t>(id >> (8 * byte)));
        if (quantizes(settings_)) {
            const auto words = talk_.taken<std::uint8_t>("codewords", codeword_bytes(settings_));
            bytes.insert(bytes.end(), words.begin(), words.end());
        }
        note(bytes);
        tokens_[micro] = ids.size();
        ++batches_;
    }
    Floats backward(Index micro) override {
        ask("gradient", micro, Json::object(), files({"gradient"}));
        return talk_.taken<float>("gradient", tokens_.at(micro) * width());
    }
    bool end_step(double rate) override {
        const Json answer = ask("end", {{"rate", rate}});
        const auto updated = answer.find("updated");
        if (updated == answer.end() || !updated->is_boolean())
            throw std::runtime_error("a sender has ended a step, but \"updated\" must be true or false");
        const Floats made = subspace();
        tapped_.note(peer_, made.data(), made.size() * sizeof(float));
        next_step();
        return *updated;
    }
    Floats subspace_gradient() override { return view("subspace_gradient", values()); }
    Floats own_subspace_gradient() override { return subspace_gradient(); }

  private:
    [[nodiscard]] Bytes indices(std::size_t tokens) {
        const std::size_t count = tokens * codebooks_of(settings_).books;
        const auto all = talk_.taken<std::uint32_t>("indices", count);
        const unsigned bits = index_bits(settings_.quantization.codewords);
        Bytes bytes(index_bytes(settings_, tokens), 0);
        for (std::size_t place = 0; place < count; ++place) {
            if (static_cast<Index>(all[place]) >= settings_.quantization.codewords)
                throw std::runtime_error("index " + std::to_string(all[place]) + " of " +
                                         std::to_string(settings_.quantization.codewords) + " codewords");
            for (unsigned bit = 0; bit < bits; ++bit) {
                const std::size_t at = place * bits + bit;
                bytes[at / 8] |= static_cast<std::uint8_t>((all[place] >> bit & 1U) << at % 8);
            }
        }
        return bytes;
    }
};

class ProgramReceiver final : public ProgramSide<AnyReceiver> {
  public:
    ProgramReceiver(Conversation talk, const Settings& settings, const EndState& state,
                    RecordingPeers& tapped, int peer)
        : ProgramSide(std::move(talk), settings, state, Side::receiver, tapped, peer) {}

    Receiver::ReceivedActivations forward(Index micro, Index tokens) override {
        ask("decompress", micro, {{"tokens", tokens}},
            {{"activations", talk_.file("arrived")}, {"ids", talk_.file("arrived_ids")}});
        const auto count = static_cast<std::size_t>(tokens);
        tokens_[micro] = count;
        ++batches_;
        return {talk_.taken<float>("arrived", count * width()), talk_.taken<Id>("arrived_ids", count)};
    }
    void backward(Index micro, std::span<const float> gradient) override {
        ask("return", micro, {{"gradient", talk_.written("dxhat", gradient)}}, files({"dz"}));
        note(payload(talk_.taken<float>("dz", tokens_.at(micro) * rank()), "dZ"));
    }
    void end_step() override {
        ask("end");
        next_step();
    }
};

} // namespace

EndFactory program_sides(gate::Programs& programs, int workers, int rank,
                         const std::filesystem::path& folder) {
    const Conversation talk(programs, workers, rank, folder);
    EndFactory sides;
    sides.sender = [talk](const Settings& settings, const EndState& state, RecordingPeers& tapped, int peer,
                          distributed::Communicator*) -> std::unique_ptr<AnySender> {
        return std::make_unique<ProgramSender>(talk, settings, state, tapped, peer);
    };
    sides.receiver = [talk](const Settings& settings, const EndState& state, RecordingPeers& tapped,
                            int peer, distributed::Communicator*) -> std::unique_ptr<AnyReceiver> {
        return std::make_unique<ProgramReceiver>(talk, settings, state, tapped, peer);
    };
    return sides;
}

} // namespace truestep::properties::mapl
