#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>

#include "agreement.hpp"
#include "group_fold.hpp"

namespace truestep::distributed::scape {

/// The buckets of one step, from the first to the step itself. The exchanged data lies in separate
/// places of the backend, so that an abandoned step has changed nothing.
class BucketsUnderWay {
  public:
    BucketsUnderWay(const problem::Problem& problem, const std::vector<problem::Range>& ranges,
                    Communicator& communicator, AgreementRoom& agreement, Backend& backend,
                    Reduction reduction, GroupFold* groups)
        : problem_(problem), ranges_(ranges), communicator_(communicator), agreement_(agreement),
          backend_(backend), can_(backend.capabilities()), reduction_(reduction), groups_(groups) {}
    ~BucketsUnderWay() { forget(); }
    BucketsUnderWay(const BucketsUnderWay&) = delete;
    BucketsUnderWay& operator=(const BucketsUnderWay&) = delete;

    [[nodiscard]] bool any() const { return count_ > 0; }
    /// Throws truestep::Error on all ranks unless all gave these tensors, which no earlier bucket
    /// of this step had.
    AgreementResult agree(Index step, std::span<const std::size_t> tensors, const RestoredDigests& restored,
                          int claim);
    /// The reason why the step cannot be taken with the present buckets, or empty.
    [[nodiscard]] std::string missing() const;

    /// Starts the exchange of the bucket that was agreed on last; the coming mask has arrived.
    void start(const Scalars& scalars, const float* gradient, bool added, Bytes& sent);
    [[nodiscard]] bool started() const { return started_; }
    /// Moves all means to moment(). S_t is the backend's current mask.
    void finish(const Scalars& scalars, Bytes& sent);
    /// Waits for everything under way, because its buffers are about to be destroyed.
    void forget() noexcept;

  private:
    struct Bucket {
        std::vector<problem::Range> where; ///< ascending, and as few as possible
        std::vector<Index> selected;       ///< on S_t, by owner
        float* payload = nullptr;          ///< c, then the means
        std::unique_ptr<Exchange> exchange{};
    };

    /// Checks tensors, which must ascend.
    [[nodiscard]] std::string fault_of(std::span<const std::size_t> tensors) const;
    void count_selected(Bucket& bucket) const;
    [[nodiscard]] std::span<const std::size_t> bytes_of(const std::vector<Index>& values,
                                                        std::size_t value_bytes);
    [[nodiscard]] std::unique_ptr<Exchange> start_payload(std::size_t number, Bytes& sent);
    void means_back(std::size_t number, const Scalars& scalars, Bytes& sent);

    const problem::Problem& problem_;
    const std::vector<problem::Range>& ranges_;
    Communicator& communicator_;
    AgreementRoom& agreement_;
    Backend& backend_;
    Capabilities can_; ///< the backend's
    Reduction reduction_;
    GroupFold* groups_;           ///< if the ranks are in groups
    std::vector<Bucket> buckets_; ///< those of this step, and memory of earlier ones
    std::size_t count_ = 0;
    std::vector<std::size_t> sorted_;
    std::vector<std::size_t> bytes_;
    std::vector<bool> given_; ///< by tensor, if there are buckets
    bool started_ = false;    ///< not in the first step, and not with a single rank
};

} // namespace truestep::distributed::scape
