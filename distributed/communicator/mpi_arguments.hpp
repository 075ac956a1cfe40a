#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <mpi.h>

#include <truestep/distributed/communicator.hpp>

#include "mpi_watch.hpp"

namespace truestep::distributed {

/// The arguments of one all-to-all. MPI reads them until it is complete.
struct MpiParts {
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Datatype> own_types;

    MpiParts() = default;
    MpiParts(const MpiParts&) = delete;
    MpiParts& operator=(const MpiParts&) = delete;
    ~MpiParts() { clear(); }

    void reserve(std::size_t ranks) {
        counts.reserve(ranks);
        displacements.reserve(ranks);
        types.reserve(ranks);
    }
    void clear() {
        if (mpi_runs())
            for (MPI_Datatype& type : own_types)
                MPI_Type_free(&type);
        own_types.clear();
        counts.clear();
        displacements.clear();
        types.clear();
        any_ = false;
    }

    /// A part that ends beyond the range of an int becomes one element of its own type, made of
    /// pieces with displacements of full width. The other side may differ; only the bytes have to
    /// match. Offsets count from the begin of the first part that is not empty, which is returned:
    /// sent and received data may lie in one buffer, and one address for both would tell MPI that
    /// all is in place.
    std::size_t describe(Communicator::Stretches parts, std::size_t largest) {
        std::size_t first = 0;
        for (const auto& [begin, size] : parts) {
            if (size > 0 && (!any_ || begin < first))
                first = begin;
            any_ = any_ || size > 0;
        }
        for (const Stretch& part : parts) {
            const std::size_t begin = part.size > 0 ? part.begin - first : 0;
            const std::size_t size = part.size;
            const bool fits = begin + size <= largest;
            counts.push_back(fits ? static_cast<int>(size) : size > 0 ? 1 : 0);
            displacements.push_back(fits ? static_cast<int>(begin) : 0);
            types.push_back(fits || size == 0 ? MPI_BYTE : in_pieces(begin, size, largest));
        }
        return first;
    }
    [[nodiscard]] bool any() const { return any_; }

    MPI_Datatype in_pieces(std::size_t begin, std::size_t size, std::size_t largest) {
        std::vector<int> lengths;
        std::vector<MPI_Aint> places;
        for (std::size_t done = 0; done < size; done += largest) {
            lengths.push_back(static_cast<int>(std::min(largest, size - done)));
            places.push_back(static_cast<MPI_Aint>(begin + done));
        }
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), MPI_BYTE,
                                 &type);
        own_types.push_back(type);
        MPI_Type_commit(&type);
        return type;
    }

  private:
    bool any_ = false;
};

/// The arguments that MPI reads until an exchange is complete. Later exchanges use them again.
struct MpiArguments {
    MpiParts sent;
    MpiParts received;
    std::vector<MPI_Request> requests;

    explicit MpiArguments(std::size_t ranks) {
        sent.reserve(ranks);
        received.reserve(ranks);
        requests.reserve(1);
    }
    void clear() {
        sent.clear();
        received.clear();
        requests.clear();
    }
};

} // namespace truestep::distributed
