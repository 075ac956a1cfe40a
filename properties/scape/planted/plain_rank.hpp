// One rank of the plain implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/properties/scape/planted/bugs.hpp>
#include <truestep/properties/scape/planted/plain.hpp>

namespace truestep::properties::scape::planted {

using problem::Index;
using Floats = std::vector<float>;
using Bits = std::vector<std::uint8_t>; ///< as section 9 stores a mask

inline std::size_t at(Index i) {
    return static_cast<std::size_t>(i);
}
inline bool test(const Bits& bits, Index i) {
    const unsigned byte = bits[at(i / 8)];
    return ((byte >> static_cast<unsigned>(i % 8)) & 1U) != 0;
}
inline void set(Bits& bits, Index i) {
    auto& byte = bits[at(i / 8)];
    byte = static_cast<std::uint8_t>(byte | (1U << static_cast<unsigned>(i % 8)));
}
inline std::size_t bytes_for(Index bits) {
    return at((bits + 7) / 8);
}

/// Rounds to nearest, ties to even.
[[nodiscard]] float in_bf16(float value);
/// Rounds after a factor 2^(15 - E), and scales back. Larger values become `greatest`.
[[nodiscard]] float in_e5m2(float value, int E, double greatest = 57344.0);
/// The byte of such a number, and the number of a byte.
[[nodiscard]] std::uint8_t byte_of(float value, int E);
[[nodiscard]] float of_byte(std::uint8_t byte, int E);

/// A hash of the step and the mask, never 0.
[[nodiscard]] std::uint64_t number_of_settings(const problem::HyperParameters& settings);
[[nodiscard]] std::uint64_t number_of_state(const properties::scape::InitialState& begun);

/// One rank. Names are the specification's; each known bug is one condition at its line.
class PlainRank final : public properties::scape::RankUnderTest {
  public:
    PlainRank(const properties::scape::Setup& setup, distributed::Communicator& communicator, Bug bug,
              const Start& start);
    ~PlainRank() override;
    PlainRank(const PlainRank&) = delete;
    PlainRank& operator=(const PlainRank&) = delete;

    void step(std::span<const float> gradient, double learning_rate) override;
    void accumulate(std::span<const float> gradient) override;
    void bucket(std::span<const std::size_t> tensors, std::span<const float> gradient) override;
    [[nodiscard]] properties::scape::ObservedState view() override;
    [[nodiscard]] std::vector<std::uint8_t> coming() override;
    void save(const std::filesystem::path& folder) override;
    void restore(const std::filesystem::path& folder) override;
    void begin_at(const properties::scape::InitialState& begun) override;

  private:
    /// Section 5: computed in double, rounded once.
    struct Scalars {
        float b1, a1, b2, a2, eps, lr, decay, inv1, invs2;
    };
    static constexpr int nothing_sent = -127; ///< less than any exponent

    /// The content of one rank's checkpoint.
    struct State {
        Index step = 0;
        Floats w, m, e;
        Bits mask, coming;
        int exponent = nothing_sent;
        int scale = -126;
    };

    void go_on(const Start& start);
    [[nodiscard]] bool has(Bug bug) const { return bug_ == bug; }
    [[nodiscard]] Scalars scalars(Index t, double learning_rate, Index param_group = 0) const;
    [[nodiscard]] double density_of_next(Index t) const;

    // Arithmetic of section 5 in which bugs are planted.
    [[nodiscard]] float multiply_add(float x, float y, float z) const; ///< (x*y) + z
    [[nodiscard]] float quotient(float x, float y) const;
    [[nodiscard]] float kept(float x) const; ///< x as it is stored

    // plain.cpp: the step, in the order of section 4.
    void refuse_on_all_ranks(std::span<const float> g);
    void make_local(const Scalars& s, std::span<const float> g);
    void store_residual(const Scalars& s, std::span<const float> g, const Bits& S);
    void reconstruct(const Scalars& s);
    void clip(const Scalars& s);
    void clip_average();
    // plain_norm.cpp
    [[nodiscard]] double norm(const Floats& x) const;
    [[nodiscard]] float clip_factor(const Floats& x, problem::Range range) const;
    // plain.cpp
    void update(const Scalars& s, const problem::Range& range);
    [[nodiscard]] bool all_finite() const;

    // plain_mask.cpp
    [[nodiscard]] Floats scored(const Scalars& s, std::span<const float> g) const;
    [[nodiscard]] std::uint32_t score(float c) const;
    [[nodiscard]] Index selected_count(Index n, bool always_dense, double density) const;
    void select(int owner, const Floats& c, double density, Bits& chosen) const;
    void select_top(std::vector<Index> candidates, const Floats& c, Index k, Bits& chosen) const;
    [[nodiscard]] Bits full_mask() const;
    void bootstrap(double density, const Floats& c);
    void start_mask(double density, const Floats& c);
    void join_mask();
    [[nodiscard]] const Bits& next_mask() const;
    void advance_mask();

    // plain_exchange.cpp
    void exchange();
    [[nodiscard]] Floats exchanged(const Bits& mask);
    [[nodiscard]] Floats to_the_owners(const Floats& payload, const std::vector<std::size_t>& counts);
    [[nodiscard]] Floats sent_as_payload(const Floats& payload, const std::vector<std::size_t>& to,
                                         const std::vector<std::size_t>& from);
    void write_means(const Bits& mask, const Floats& packed);
    [[nodiscard]] std::vector<std::size_t> selected_by_range(const Bits& mask) const;
    [[nodiscard]] Floats packed_payload(const Bits& mask) const;
    [[nodiscard]] float travelled(float c) const;   ///< c as it arrives
    [[nodiscard]] float rounding_of(float c) const; ///< what stays of it
    [[nodiscard]] float staying(Index i) const;     ///< what stays, with the owner's loss of the mean
    [[nodiscard]] problem::Payload format() const { return format_of(problem_.settings.payload); }
    [[nodiscard]] bool scaled() const { return format() == problem::Payload::e5m2; }
    [[nodiscard]] float rounded_mean(Index i, float mean);
    void round_own_means(const Bits& mask, Floats& means);
    [[nodiscard]] std::size_t bytes_of_a_mean() const;
    [[nodiscard]] std::vector<char> narrow(const Floats& values, std::size_t bytes) const;
    [[nodiscard]] Floats wide(const std::vector<char>& sent, std::size_t bytes) const;
    void agree_on_scale(Index t);
    void refuse_what_overflows(const Bits& S);
    // plain_groups.cpp
    struct GroupOfRanks {
        std::size_t first = 0;
        std::size_t size = 0;
    };
    void make_groups();
    [[nodiscard]] std::size_t handler(const GroupOfRanks& group, std::size_t owner) const;
    [[nodiscard]] Floats exchanged_in_groups(const Bits& mask, const Floats& payload,
                                             const std::vector<std::size_t>& counts);
    [[nodiscard]] float sum_of_group(const Floats& received, std::size_t values, std::size_t j) const;
    [[nodiscard]] float mean_of_groups(const Floats& received, std::size_t values, std::size_t j) const;
    [[nodiscard]] Floats gathered_in_groups(const Floats& mine, const std::vector<std::size_t>& counts);
    [[nodiscard]] Floats exchange_values(distributed::Traffic traffic, const Floats& sent,
                                         const std::vector<std::size_t>& to,
                                         const std::vector<std::size_t>& from);

    [[nodiscard]] float mean_of(const Floats& received, std::size_t values, std::size_t j) const;

    // plain_parts.cpp
    [[nodiscard]] std::span<const float> whole(std::span<const float> last);
    void check_whole(std::span<const float> g);
    void residual_follows_buckets();
    void exchange_buckets();
    [[nodiscard]] Bits selected_in(const std::vector<std::size_t>& tensors) const;

    // plain_starts.cpp
    void compare_given(const properties::scape::Setup& setup, bool begins);
    [[nodiscard]] std::string fault_of_buckets() const;
    void compare_states_and_buckets();

    // plain_checkpoint.cpp
    void together(const std::string& failure);
    [[nodiscard]] Floats by_bucket(const Floats& e, bool back) const;
    [[nodiscard]] std::string_view checked_part(std::string_view bytes) const;
    void read_file(const std::filesystem::path& path, State& state, int& saved_ranks) const;
    void read_state(const std::filesystem::path& folder, State& state) const;

    problem::Problem problem_;
    std::vector<problem::Range> ranges_;
    problem::DensitySchedule density_;
    distributed::Communicator& communicator_;
    Bug bug_;
    std::vector<double> norm_; ///< of the whole by step, if this is a part; empty: this is the whole
    std::vector<std::vector<double>> more_rates_; ///< by step, of parameter groups behind the first
    std::vector<int> exponents_;                  ///< E of the first steps, in place of their own
    bool first_is_given_;   ///< the first mask is given, as what it is made from is incomplete
    std::size_t asked_ = 0; ///< how many steps were asked for, whatever their outcome
    int me_;
    int ranks_;
    std::vector<GroupOfRanks> groups_; ///< of section 32; empty for section 4
    Index d_;

    Index steps_ = 0;
    std::uint64_t given_state_ = 0; ///< until a step was taken from a given state
    std::string halted_;            ///< why no step can be taken; empty if one can
    Floats w_, m_, e_;
    Floats c_;                         ///< of this step
    Floats M_, ghat_;                  ///< of this step, 0 off the mask
    Bits mask_;                        ///< S_t of the last step
    Bits coming_;                      ///< S_{t+1}, once it has been joined
    int E_ = -126;                     ///< the exponent by which this step's payload is scaled, if it is
    Floats lost_;                      ///< of this step: P times what rounding its means took
    std::optional<int> last_exponent_; ///< of this rank's last payload, or nothing_sent

    // The gather of the coming mask, in flight between two steps.
    Bits outgoing_, incoming_;
    std::vector<std::size_t> gather_sizes_;
    double density_in_flight_ = 1.0;
    std::unique_ptr<distributed::Exchange> gather_;

    // The step under way.
    std::vector<Floats> parts_;                                  ///< all but the last
    Floats sum_;                                                 ///< of all parts
    std::vector<std::vector<std::size_t>> cut_;                  ///< tensors, in the order of their buckets
    std::vector<std::vector<std::size_t>> last_cut_, first_cut_; ///< for bugs only

    // State of single known bugs.
    Bits previous_mask_;               ///< offsets_of_previous_mask
    Bits waiting_;                     ///< mask_two_steps_late: the mask made two steps ago
    Bits own_choice_;                  ///< own_mask_kept
    Floats own_means_;                 ///< owner_keeps_its_mean
    Floats accumulated_;               ///< gradient_not_zeroed
    Index restored_at_ = 0;            ///< counter_not_saved
    std::optional<double> first_rate_; ///< rate_of_first_step
    double density_in_use_ = 1.0;      ///< decoder_of_another_density
};

} // namespace truestep::properties::scape::planted
